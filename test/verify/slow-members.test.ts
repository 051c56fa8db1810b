import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, testStories } from './stories.ts'

const { sidecarKilled, unready } = incidents
const BACK = { connected: true, answering: true, serves: true, ready: true }

const stories: Stories = {
  'the lease of a shared address expires, because one of its masters is too slow to renew it': [
    () => sharedStory(500).list(['a']).list(['a', 'b']).wait(30_000),
  ],
  'a shared address is removed although its slow master is fast enough to renew the lease': [
    () => sharedStory(100).list(['a']).list(['a', 'b']),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'a master with slow requests writes a list without a master that was unready when it read the leases': [
    () => backStory().list(['a', 'c'], { by: 'a' }).list(['a', 'b', 'c']).wait(10_000),
  ],
  'a master with fast requests writes a list without a master that is ready again': [
    () => backStory().list(['a', 'c'], { by: 'c' }).list(['a', 'b', 'c']),
    'no-address-goes-without-cause',
  ],
  'a restarted master with slow requests is removed early, because its last renewal was late': [
    () => restartedStory(100).list(['a', 'c']).list(['a', 'b', 'c']).wait(20_000),
  ],
  'a restarted master is removed too early': [
    () => restartedStory(0).list(['a', 'c']).list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'an unready master leaves although the others have been unready for longer, but report it slowly': [
    () =>
      storyOfThree()
        .turn('a', { ...unready, delayMs: 100 })
        .turn('c', { ...unready, delayMs: 100 })
        .wait(500)
        .turn('b', unready)
        .wait(4_000)
        .list(['a', 'c']),
  ],
}

/** One of two masters at the same address is slow. */
function sharedStory(delayMs: number): FleetStory {
  const story = new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } })
  return story.turn('c', { delayMs }).wait(1_000)
}

/** A sidecar is killed, and its next life begins four seconds later. */
function restartedStory(delayMs: number): FleetStory {
  return storyOfThree().turn('b', { delayMs }).turn('b', sidecarKilled).wait(4_000).begin('b').wait(200)
}

/** Of two listed masters one is slow. The server of a third was not ready for a while. */
function backStory(): FleetStory {
  return storyOfThree({ leaseTtlMs: 20_000 })
    .turn('a', { delayMs: 100 })
    .turn('b', unready)
    .wait(2_500)
    .turn('b', BACK)
    .wait(2_000)
}

testStories(stories)
