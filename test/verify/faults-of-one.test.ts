import { FleetStory, incidents } from './fleet-story.ts'
import { testStories } from './stories.ts'

const { silent } = incidents
const BACK = { answering: true, serves: true, ready: true, connected: true, etcdFails: false, impaired: 'no' } as const
const all = ['a', 'b', 'c']
/** Its own etcd is dead; its lease is in another etcd. */
const etcdDead = { etcdFails: true, serves: false, connected: false, renewing: true } as const

testStories({
  'after an outage of the datastore a server recovers 2 s after the others, and its master is removed': [
    () => outageStory(2_000).list(['a', 'c']).wait(1_000).turn('b', BACK).list(all).wait(60_000),
    'unready-leaves-only-for-ready',
  ],
  'after an outage of the datastore a master reports its recovery too late, and is removed': [
    () => outageStory(2_000).turn('b', BACK).wait(2_500).list(['a', 'c']).list(all).wait(60_000),
    'unready-leaves-only-for-ready',
  ],
  'after an outage of the datastore a server recovers 7 s after the others, and its master is removed': [
    () => outageStory(7_000).list(['a', 'c']).turn('b', BACK).wait(1_000).list(all).wait(60_000),
    'unready-leaves-only-for-ready',
  ],
  'after an outage of the datastore a server stays down for the TTL of its lease, and its master is removed': [
    () => outageStory(15_000).list(['a', 'c']).turn('b', BACK).wait(1_000).list(all).wait(60_000),
  ],
  'a lease expires after an outage that was too short for the other masters to notice': [
    () => shortOutageStory(4_200).wait(2_200).list(['a', 'c']).turn('b', BACK).wait(1_000).list(all).wait(60_000),
  ],
  'a lease expires early after an outage that the other masters have noticed': [
    () => shortOutageStory(6_000).wait(2_200).list(['a', 'c']).turn('b', BACK).wait(1_000).list(all).wait(60_000),
    'unready-leaves-only-for-ready',
  ],
  'a server fails before the others, and its master is removed when they are back': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, c: {} }).turn('b', silent).wait(3_500)
      story.turn('a', silent).turn('c', silent).wait(1_000).turn('a', BACK).turn('c', BACK).wait(1_000)
      return story.list(['a', 'c']).turn('b', BACK).wait(1_000).list(all).wait(60_000)
    },
  ],
  'a master with some refused requests is removed although it renews its lease': [
    () => impairedStory('rest').list(['a', 'c']).list(all).wait(500).turn('b', BACK).wait(60_000),
    'no-address-goes-without-cause',
  ],
  'a master that may be unable to renew its lease is removed': [
    () => impairedStory('lease').list(['a', 'c']).wait(500).turn('b', BACK).list(all).wait(60_000),
  ],
  'a master that was impaired is listed again when its earlier requests have timed out': [
    () => impairedStory('lease').list(['a', 'c']).turn('b', BACK).wait(15_000).list(all).wait(60_000),
  ],
  'a master that was impaired is listed again too late': [
    () => impairedStory('lease').list(['a', 'c']).turn('b', BACK).wait(17_000).list(all).wait(60_000),
    'live-master-listed',
  ],
  'a dead master stays listed, because a request of each other master was lost just before it was due': [
    () => disturbedStory().wait(25_000).list(['a', 'b']).wait(60_000),
  ],
  'a dead master stays listed for too long after a request of each other master was lost': [
    () => disturbedStory().wait(60_000),
    'dead-master-removed',
    'in-sync-after-the-last-fault',
  ],
  'a master that cannot renew its lease is removed after a second outage, before which the lease expired': [
    () => outagesStory(20_000).list(['a', 'c']).wait(5_000).turn('b', BACK).wait(1_000).list(all).wait(60_000),
  ],
  'a master that cannot renew its lease is removed after a second outage, in which the lease could not expire': [
    () => outagesStory(5_000).list(['a', 'c']).wait(5_000).turn('b', BACK).wait(1_000).list(all).wait(60_000),
    'no-address-goes-without-cause',
  ],
  'a master whose own etcd is dead stays listed': [
    () => new FleetStory({ a: {}, b: {}, c: {} }).turn('b', etcdDead).wait(10_000).turn('b', BACK).wait(60_000),
    'unready-master-leaves',
  ],
  'a master whose own etcd is dead is removed': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, c: {} }).turn('b', etcdDead).wait(6_000).list(['a', 'c'])
      return story.wait(10_000).turn('b', BACK).wait(1_000).list(all).wait(60_000)
    },
  ],
})

/** All servers fail together with their datastore and recover with it, the server of b `laterMs` later. */
function outageStory(laterMs: number, b: { readonly leavesWhenUnready?: boolean } = {}): FleetStory {
  const story = new FleetStory({ a: {}, b, c: {} })
  story.leasesCannotExpire = true
  for (const name of all) story.turn(name, { ...silent, connected: false })
  story.wait(20_000)
  story.leasesCannotExpire = false
  return story.turn('a', BACK).turn('c', BACK).wait(laterMs)
}

/**
 * An outage of `outageMs`, with leases that last six seconds and are renewed every four. The server of b stays away.
 */
function shortOutageStory(outageMs: number): FleetStory {
  const times = { leaseTtlMs: 6_000, reconcileIntervalMs: 4_000 }
  const story = new FleetStory({ a: times, b: times, c: times })
  story.leasesCannotExpire = true
  for (const name of all) story.turn(name, { ...silent, connected: false })
  story.wait(outageMs)
  story.leasesCannotExpire = false
  return story.turn('a', BACK).turn('c', BACK)
}

/** The master c dies. 14 s later a fault hits one request of each of the others, and is over before the next check. */
function disturbedStory(): FleetStory {
  const story = new FleetStory({ a: {}, b: {}, c: {} }).turn('c', incidents.killed).wait(14_000)
  return story.turn('a', { disturbances: 1 }).turn('b', { disturbances: 1 })
}

/** Two outages of the lease store, `apartMs` apart. b cannot renew its lease after the first one. */
function outagesStory(apartMs: number): FleetStory {
  const story = outageStory(0, { leavesWhenUnready: false }).turn('b', {
    answering: true,
    serves: true,
    impaired: 'lease',
    renewing: false,
  })
  story.wait(apartMs)
  story.leasesCannotExpire = true
  for (const name of ['a', 'c']) story.turn(name, { connected: false })
  story.wait(12_000)
  story.leasesCannotExpire = false
  return story.turn('a', BACK).turn('c', BACK).wait(500)
}

/** Requests of b fail for a while. */
function impairedStory(impaired: 'rest' | 'lease'): FleetStory {
  const story = new FleetStory({ a: {}, b: {}, c: {} })
  return story.turn('b', { impaired, connected: false, renewing: true }).wait(20_000)
}
