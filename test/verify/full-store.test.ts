import { type FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, testStories } from './stories.ts'

const { storeCut } = incidents
const FULL = { storeFull: true, connected: false }

const stories: Stories = {
  'etcd accepts no writes, all leases expire, and an address is removed': [
    () => fullStory(storyOfThree()).list(['b', 'c']).list(['a', 'b', 'c']),
    'no-address-goes-without-cause',
  ],
  'etcd accepts no writes, all leases expire, and an address is removed; one master was cut off before': [
    () => fullStory(storyOfThree().turn('c', storeCut).wait(500)).list(['b', 'c']).list(['a', 'b', 'c']),
  ],
  'etcd accepts no writes, all leases expire, and an address is removed; one master was frozen meanwhile': [
    () => fullStory(storyOfThree(), { frozen: true, running: false }).list(['b', 'c']).list(['a', 'b', 'c']),
  ],
}

/** No master can renew its lease for twenty seconds. For the first ten, `change` also applies to c. */
function fullStory(story: FleetStory, change: Parameters<FleetStory['turn']>[1] = {}): FleetStory {
  for (const name of ['a', 'b', 'c']) story.turn(name, FULL)
  return story.turn('c', change).wait(10_000).turn('c', { frozen: false, running: true }).wait(10_000)
}

testStories(stories)
