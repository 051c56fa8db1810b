import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, testStories } from './stories.ts'

const { killed, sidecarKilled, stopped, serverStopped, silent, unready, cut } = incidents

/** One of two masters is dead. The server of the other one did not answer it for half a minute, until now. */
function storyOfOneThatHung(): FleetStory {
  return new FleetStory({ a: {}, b: {} })
    .turn('b', killed)
    .turn('a', { ...silent, connected: false })
    .wait(30_000)
    .turn('a', { connected: true, answering: true, serves: true })
}

/** Three masters. The server of one has been silent for ten seconds, because its store hangs. */
function storyOfSilent(): FleetStory {
  return storyOfThree()
    .turn('b', { ...silent, connected: false })
    .wait(10_000)
}

const BACK = { answering: true, serves: true }

/** Two masters whose servers were both silent for 40 s, until 20 s ago. */
function recoveredStory(): FleetStory {
  const story = new FleetStory({ a: {}, b: {} }).turn('a', silent).turn('b', silent).wait(40_000)
  return story.turn('a', BACK).turn('b', BACK).wait(20_000)
}

/**
 * A kube-apiserver and two masters with sidecars. One of the two was away so long that it does not confirm anything
 * yet.
 */
function besideKubeApiserver(): FleetStory {
  const story = new FleetStory({ a: {}, b: {}, k: { kind: 'kube-apiserver' } }).turn('a', silent).wait(4_000)
  return story.list(['b', 'k']).wait(36_000).turn('a', BACK).list(['a', 'b', 'k']).wait(20_000)
}

const stories: Stories = {
  'a fleet without incidents': [() => storyOfThree().wait(60_000)],

  // dead-master-removed
  'a dead master stays listed for its TTL and the margin': [
    () => storyOfThree().turn('b', killed).wait(16_900).list(['a', 'c']).wait(40_000),
  ],
  'a dead master stays listed for longer than its TTL and the margin': [
    () => storyOfThree().turn('b', killed).wait(17_100).list(['a', 'c']).wait(10_000),
    'dead-master-removed',
  ],
  'a dead master stays listed for longer, with a larger margin': [
    () => storyOfThree({}, { removalMarginMs: 5_000 }).turn('b', killed).wait(19_900).list(['a', 'c']),
  ],
  'a dead master with a short TTL stays listed for too long': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }).turn('b', killed).wait(5_100).list(['a', 'c']),
    'dead-master-removed',
  ],
  'a frozen master stays listed for too long': [
    () => storyOfThree().turn('b', { frozen: true, running: false }).wait(17_100),
    'dead-master-removed',
  ],
  'a master whose renewal hung with its store renews late, while its server is silent, and stays for another TTL': [
    () => storyOfSilent().turn('b', { connected: true }).wait(16_900).list(['a', 'c']),
  ],
  'a master whose renewal hung with its store stays listed for too long': [
    () => storyOfSilent().turn('b', { connected: true }).wait(17_100),
    'dead-master-removed',
  ],
  'a master whose server is silent, and whose store stays away, stays listed for too long': [
    () => storyOfSilent().wait(7_100),
    'dead-master-removed',
  ],
  'all masters are dead, and stay listed': [
    () => new FleetStory({ a: {}, b: {} }).turn('a', killed).turn('b', killed).wait(60_000),
  ],
  'the last master restarts late, and leaves the dead one listed for another TTL': [
    () =>
      new FleetStory({ a: {}, b: {} })
        .turn('b', killed)
        .turn('a', killed)
        .wait(30_000)
        .begin('a')
        .wait(16_500)
        .list(['a']),
  ],
  'the last master restarts, and leaves the dead one listed for too long': [
    () => new FleetStory({ a: {}, b: {} }).turn('b', killed).turn('a', killed).wait(30_000).begin('a').wait(19_500),
    'dead-master-removed',
  ],
  'the last master, whose server hung until now, renews its own lease before it removes the dead one': [
    () => storyOfOneThatHung().wait(19_500).list(['a']),
  ],
  'the last master, whose server hung until now, leaves the dead one listed for too long': [
    () => storyOfOneThatHung().wait(22_500),
    'dead-master-removed',
    'in-sync-after-the-last-fault',
  ],
  'a dead master stays listed for its TTL after leases could not expire': [
    () => {
      const story = storyOfThree().turn('b', killed)
      story.leasesCannotExpire = true
      story.wait(30_000)
      story.leasesCannotExpire = false
      return story.wait(16_500).list(['a', 'c'])
    },
  ],
  'a dead master shares its address with a live one, and the address stays listed': [
    () => new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } }).turn('b', killed).wait(60_000),
  ],
  'both masters behind a shared address are dead, and it stays listed for too long': [
    () =>
      new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } })
        .turn('b', killed)
        .wait(5_000)
        .turn('c', killed)
        .wait(17_100),
    'dead-master-removed',
  ],
  'a master restarts with another address, and the old one stays listed for too long': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .begin('b', { address: 'elsewhere' })
        .list(['a', 'at-b', 'c', 'elsewhere'])
        .wait(17_100),
    'dead-master-removed',
  ],
  'a master restarts with another address, and the old one is removed in time': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .begin('b', { address: 'elsewhere' })
        .list(['a', 'at-b', 'c', 'elsewhere'])
        .wait(15_100)
        .list(['a', 'c', 'elsewhere'])
        .wait(30_000),
  ],
  'a dead master that had a longer TTL before its restart stays listed for that TTL': [
    () =>
      storyOfThree({ leaseTtlMs: 30_000 })
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', killed)
        .wait(31_000)
        .list(['a', 'c']),
  ],
  'a paused server resumes with a hanging /readyz, and its master is removed a TTL after the pending renewal': [
    () =>
      storyOfThree()
        .turn('b', serverStopped)
        .wait(12_000)
        .turn('b', { ...silent, connected: true, clientConnections: 'served' })
        .wait(16_900)
        .list(['a', 'c']),
  ],
  'a paused server resumes with a hanging /readyz, and its master stays listed for longer than a TTL': [
    () =>
      storyOfThree()
        .turn('b', serverStopped)
        .wait(12_000)
        .turn('b', { ...silent, connected: true, clientConnections: 'served' })
        .wait(17_100),
    'dead-master-removed',
  ],
  'a paused server is killed with its pending renewal, and its master stays listed for too long': [
    () => storyOfThree().turn('b', serverStopped).wait(12_000).turn('b', { clientConnections: 'refused' }).wait(5_100),
    'dead-master-removed',
  ],
  'a fleet of kube-apiservers removes a dead one at a tick': [
    () =>
      storyOfThree({ kind: 'kube-apiserver', withdrawsEvenIfLast: true })
        .turn('b', killed)
        .wait(26_500)
        .list(['a', 'c'])
        .wait(30_000),
  ],
  'a fleet of kube-apiservers leaves a dead one listed for more than a tick': [
    () => storyOfThree({ kind: 'kube-apiserver', withdrawsEvenIfLast: true }).turn('b', killed).wait(27_500),
    'dead-master-removed',
  ],
  'masters with slow requests remove a dead one later': [
    () => slowStory(100).turn('b', killed).wait(19_300).list(['a', 'c']).wait(9_000),
  ],

  'masters with slow requests remove a dead one too late': [
    () => slowStory(100).turn('b', killed).wait(19_500).list(['a', 'c']),
    'dead-master-removed',
  ],

  // live-master-listed
  'a new master is listed within the bound': [
    () => storyOfThree().add('d').wait(5_900).list(['a', 'b', 'c', 'd']).wait(10_000),
  ],
  'a new master is listed after the bound': [
    () => storyOfThree().add('d').wait(6_100).list(['a', 'b', 'c', 'd']),
    'live-master-listed',
  ],
  'a new master is listed within a longer bound': [
    () => storyOfThree({}, { listedMs: 9_000 }).add('d').wait(8_900).list(['a', 'b', 'c', 'd']),
  ],
  'a new kube-apiserver is listed at its first tick': [
    () => storyOfThree().add('d', { kind: 'kube-apiserver' }).wait(11_900).list(['a', 'b', 'c', 'd']),
  ],
  'a list that an outsider has emptied is restored in time': [
    () => storyOfThree().list([], { byDamage: true }).wait(1_900).list(['a', 'b', 'c']).wait(5_000),
  ],
  'a list that an outsider has emptied stays empty': [
    () => storyOfThree().list([], { byDamage: true }).wait(2_100),
    'live-master-listed',
  ],
  'a new master with slow requests is listed in time after they become fast': [
    () =>
      storyOfThree()
        .add('d', { delayMs: 200 })
        .wait(10_000)
        .turn('d', { delayMs: 0 })
        .wait(8_300)
        .list(['a', 'b', 'c', 'd'])
        .wait(10_000),
  ],
  'a new master with slow requests is not listed long after they become fast': [
    () => storyOfThree().add('d', { delayMs: 200 }).wait(10_000).turn('d', { delayMs: 0 }).wait(9_000),
    'live-master-listed',
  ],
  'a master whose requests are too slow to renew its lease is not listed': [
    () => storyOfThree().add('d', { delayMs: 500, leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }).wait(60_000),
  ],

  // stopped-master-leaves
  'a stopped master is removed in time': [
    () => storyOfThree().turn('b', stopped).wait(2_900).list(['a', 'c']).wait(30_000),
  ],
  'a stopped master stays listed': [() => storyOfThree().turn('b', stopped).wait(3_100), 'stopped-master-leaves'],
  'a stopped master with slow requests is removed later by the time of a renewal': [
    () =>
      storyOfThree()
        .turn('b', { ...stopped, delayMs: 100 })
        .wait(5_300)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'a stopped master with slow requests stays listed for too long': [
    () =>
      storyOfThree()
        .turn('b', { ...stopped, delayMs: 100 })
        .wait(5_600),
    'stopped-master-leaves',
  ],
  'a stopped master waits for the confirmation of others with slow requests': [
    () =>
      storyOfThree()
        .turn('a', { delayMs: 100 })
        .turn('c', { delayMs: 100 })
        .turn('b', stopped)
        .wait(4_100)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'a stopped master stays listed although one of the others has fast requests': [
    () => storyOfThree().turn('a', { delayMs: 100 }).turn('b', stopped).wait(3_100),
    'stopped-master-leaves',
  ],
  'a stopped master whose server does not answer is removed after three seconds of retries': [
    () =>
      storyOfThree()
        .turn('b', { ...silent, connected: true })
        .turn('b', { ...stopped, ended: false })
        .wait(5_900)
        .list(['a', 'c'])
        .wait(30_000),
  ],
  'a stopped master whose server does not answer stays listed': [
    () =>
      storyOfThree()
        .turn('b', { ...silent, connected: true })
        .turn('b', { ...stopped, ended: false })
        .wait(6_100),
    'stopped-master-leaves',
  ],
  'a master that does not withdraw on stop stays listed until its lease expires': [
    () => storyOfThree({ withdrawsOnStop: false }).turn('b', stopped).wait(15_500).list(['a', 'c']),
  ],
  'a stopped master that is cut off stays listed': [
    () => storyOfThree().turn('b', cut).turn('b', stopped).wait(10_000),
  ],
  'a master ends while it is cut off, and stays listed after the partition': [
    () =>
      storyOfThree()
        .turn('b', cut)
        .turn('b', stopped)
        .wait(1_000)
        .turn('b', { connected: true, answering: true, serves: true })
        .wait(10_000),
  ],
  'a master is stopped while it is cut off, still runs after the partition, and stays listed': [
    () =>
      storyOfThree()
        .turn('b', cut)
        .turn('b', { ...stopped, ended: false })
        .wait(1_000)
        .turn('b', { connected: true, answering: true, serves: true })
        .wait(6_100),
    'stopped-master-leaves',
  ],
  'a master stopped before it was ready leaves the lease of its previous process to expire': [
    () =>
      storyOfThree()
        .turn('b', sidecarKilled)
        .begin('b', { hasBeenReady: false, serves: false })
        .turn('b', { ...stopped, hasBeenReady: false })
        .wait(14_000)
        .list(['a', 'c']),
  ],
  'the last master is stopped, and stays listed': [
    () => new FleetStory({ a: {}, b: {} }).turn('a', killed).wait(5_000).turn('b', stopped).wait(60_000),
  ],
  'a master that took over the address of a dead one is stopped before the dead one’s lease expires': [
    () => {
      const story = storyOfThree().turn('b', killed).wait(1_000).add('d', { address: 'at-b' }).wait(10_000)
      return story.turn('d', stopped).wait(14_000).list(['a', 'c']).wait(30_000)
    },
  ],
  'a master that took over the address of a dead one long ago is stopped, and stays listed': [
    () => {
      const story = storyOfThree().turn('b', killed).wait(1_000).add('d', { address: 'at-b' }).wait(30_000)
      return story.turn('d', stopped).wait(3_600)
    },
    'stopped-master-leaves',
  ],
  'the address of a stopped master stays listed for another master behind it': [
    () => new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } }).turn('b', stopped).wait(60_000),
  ],

  // unready-master-leaves
  'an unready master is removed in time': [
    () => storyOfThree().turn('b', unready).wait(7_900).list(['a', 'c']).wait(30_000),
  ],
  'an unready master stays listed': [() => storyOfThree().turn('b', unready).wait(8_600), 'unready-master-leaves'],
  'an unready master that waits for readiness only at startup stays listed': [
    () => storyOfThree({ leavesWhenUnready: false }).turn('b', unready).wait(45_000),
  ],
  'an unready master waits for another whose server failed again before it could confirm anything': [
    () => recoveredStory().turn('a', silent).wait(1_000).turn('a', BACK).wait(10_000).turn('b', unready).wait(18_000),
  ],
  'an unready master waits for another whose server failed again just when it could confirm': [
    () => {
      const story = recoveredStory().wait(13_000).turn('a', silent).wait(1_000).turn('a', BACK).wait(6_500)
      return story.turn('b', unready).wait(11_000)
    },
  ],
  'an unready master stays listed although another server has failed only occasional probes for long': [
    () => {
      const story = recoveredStory()
      for (const afterMs of [36_000, 61_000, 99_000]) story.turn('a', silent).wait(1_000).turn('a', BACK).wait(afterMs)
      return story.turn('b', unready).wait(20_000)
    },
    'unready-master-leaves',
  ],
  'an unready master waits for another whose server failed for long soon after its start': [
    () => {
      const story = new FleetStory({ b: {} }).add('a').list(['a', 'b']).wait(2_000).turn('a', silent).wait(4_000)
      story.list(['b']).wait(26_000).turn('a', BACK).list(['a', 'b']).wait(10_000)
      return story.turn('b', unready).wait(21_000)
    },
  ],
  'beside a kube-apiserver, a master whose etcd fails waits for the confirmation of another sidecar': [
    () => besideKubeApiserver().turn('b', { serves: false, etcdFails: true }).wait(10_000),
  ],
  'beside a kube-apiserver, an unready master stays listed': [
    () => besideKubeApiserver().turn('b', unready).wait(10_000),
    'unready-master-leaves',
  ],
  'an unready master waits although another server failed long ago': [
    () => recoveredStory().turn('b', unready).wait(45_000),
    'unready-master-leaves',
  ],
  'all masters are unready, and all stay listed': [
    () => storyOfThree().turn('a', unready).turn('b', unready).turn('c', unready).wait(60_000),
  ],

  // Clients use the slice, whoever else writes it.
  'beside a kube-apiserver, a master missing from the EndpointSlice is added in time': [
    () => mixedStory(['a', 'k']).wait(1_900).list(['a', 'b', 'k'], { only: 'slice' }).wait(30_000),
  ],
  'beside a kube-apiserver, the EndpointSlice lacks a master that the Endpoints list': [
    () => mixedStory(['a', 'k']).wait(2_500),
    'endpoints-and-slice-agree',
    'live-master-listed',
  ],
  'beside a kube-apiserver, only the EndpointSlice lists an unknown address': [
    () => mixedStory(['a', 'b', 'k', 'foreign']).wait(20_100),
    'endpoints-and-slice-agree',
    'in-sync-after-the-last-fault',
  ],

  // in-sync-after-the-last-fault
  'an unknown address is removed within the recovery time': [
    () =>
      storyOfThree()
        .list(['a', 'b', 'c', 'foreign'], { byDamage: true })
        .wait(19_900)
        .list(['a', 'b', 'c'])
        .wait(30_000),
  ],
  'an unknown address is listed long after the last fault': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign'], { byDamage: true }).wait(20_100),
    'in-sync-after-the-last-fault',
  ],
  'after an outage the list is restored within the recovery time': [
    () => outageStory().wait(3_900).list(['a', 'b', 'c']).wait(30_000),
  ],
  'after an outage the list is not restored within the recovery time': [
    () => outageStory().wait(4_100),
    'in-sync-after-the-last-fault',
  ],
  'a master that died long ago is not listed': [
    () => storyOfThree().turn('b', killed).wait(15_200).list(['a', 'c']).wait(60_000),
  ],
}

/** Two masters with sidecars, and a kube-apiserver that writes a slice with these members. */
function mixedStory(names: readonly string[]): FleetStory {
  const story = new FleetStory({ a: {}, b: {}, k: { kind: 'kube-apiserver' } }).wait(10_000)
  return story.list(names, { only: 'slice', by: 'k', byDamage: true })
}

/** The messages of all members become slow. */
function slowStory(delayMs: number): FleetStory {
  const story = storyOfThree()
  for (const name of ['a', 'b', 'c']) story.turn(name, { delayMs })
  return story
}

/** All members are cut off for half a minute, in which the list is damaged. Four seconds are enough to correct it. */
function outageStory(): FleetStory {
  const story = storyOfThree({}, { recoveryMs: 4_000, listedMs: 30_000 })
  for (const name of ['a', 'b', 'c']) story.turn(name, cut)
  story.list(['a'], { byDamage: true }).wait(30_000)
  for (const name of ['a', 'b', 'c']) story.turn(name, { connected: true, answering: true, serves: true })
  return story
}

testStories(stories)
