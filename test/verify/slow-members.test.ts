import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, tellStories } from './stories.ts'

const { sidecarKilled, unready } = incidents
const BACK = { connected: true, answering: true, serves: true, ready: true }

const stories: Stories = {
  'the lease of an address that two share ends, because one of them is too slow for it': [
    () => sharedStory(500).list(['a']).list(['a', 'b']).wait(30_000),
  ],
  'the lease of an address that two share ends, though the slow one is fast enough': [
    () => sharedStory(100).list(['a']).list(['a', 'b']),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'a list that its writer read long ago leaves out who was not ready then': [
    () => backStory().list(['a', 'c'], { by: 'a' }).list(['a', 'b', 'c']).wait(10_000),
  ],
  'a list that its writer read just now leaves out who was not ready before': [
    () => backStory().list(['a', 'c'], { by: 'c' }).list(['a', 'b', 'c']),
    'no-address-goes-without-cause',
  ],
  'a slow master whose sidecar was restarted goes before the others’ time, because its last renewal was late': [
    () => restartedStory(100).list(['a', 'c']).list(['a', 'b', 'c']).wait(20_000),
  ],
  'a master whose sidecar was restarted goes before its time': [
    () => restartedStory(0).list(['a', 'c']).list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'one leaves to others who have been unready for longer, and are slow to say so': [
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

tellStories(stories)
