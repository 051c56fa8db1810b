import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, tellStories } from './stories.ts'

const { killed, sidecarKilled, stopped, serverStopped, silent, unready, cut } = incidents

/** One of two masters is dead. The server of the other one did not answer it for half a minute, until now. */
function storyOfOneThatHung(): FleetStory {
  return new FleetStory({ a: {}, b: {} })
    .turn('b', killed)
    .turn('a', { ...silent, connected: false })
    .wait(30_000)
    .turn('a', { connected: true, answering: true, serves: true })
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
  'a fleet to which nothing happens': [() => storyOfThree().wait(60_000)],

  // dead-master-removed
  'a dead master is listed for its TTL and the margin': [
    () => storyOfThree().turn('b', killed).wait(16_900).list(['a', 'c']).wait(40_000),
  ],
  'a dead master is listed a moment longer': [
    () => storyOfThree().turn('b', killed).wait(17_100).list(['a', 'c']).wait(10_000),
    'dead-master-removed',
  ],
  'a dead master is listed longer by as much as the bound says': [
    () => storyOfThree({}, { removalMarginMs: 5_000 }).turn('b', killed).wait(19_900).list(['a', 'c']),
  ],
  'a short TTL lets a dead master be listed for as short a time': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }).turn('b', killed).wait(5_100).list(['a', 'c']),
    'dead-master-removed',
  ],
  'a frozen master is as good as dead': [
    () => storyOfThree().turn('b', { frozen: true, running: false }).wait(17_100),
    'dead-master-removed',
  ],
  'nobody is left to see that one is dead': [
    () => new FleetStory({ a: {}, b: {} }).turn('a', killed).turn('b', killed).wait(60_000),
  ],
  'the last one came back late, and gives the others their time': [
    () =>
      new FleetStory({ a: {}, b: {} })
        .turn('b', killed)
        .turn('a', killed)
        .wait(30_000)
        .begin('a')
        .wait(16_500)
        .list(['a']),
  ],
  'the last one came back and leaves the dead listed': [
    () => new FleetStory({ a: {}, b: {} }).turn('b', killed).turn('a', killed).wait(30_000).begin('a').wait(19_500),
    'dead-master-removed',
  ],
  'the last one asked its server in vain until now, and renews its own lease before it judges others': [
    () => storyOfOneThatHung().wait(19_500).list(['a']),
  ],
  'the last one asked its server in vain until now, and leaves the dead listed': [
    () => storyOfOneThatHung().wait(22_500),
    'dead-master-removed',
    'in-sync-after-the-last-fault',
  ],
  'while leases stand still nobody ends': [
    () => {
      const story = storyOfThree().turn('b', killed)
      story.leasesCannotExpire = true
      story.wait(30_000)
      story.leasesCannotExpire = false
      return story.wait(16_500).list(['a', 'c'])
    },
  ],
  'another behind the same address lives': [
    () => new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } }).turn('b', killed).wait(60_000),
  ],
  'both behind one address are dead': [
    () =>
      new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } })
        .turn('b', killed)
        .wait(5_000)
        .turn('c', killed)
        .wait(17_100),
    'dead-master-removed',
  ],
  'a master comes back with another address, and the old one stays listed': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .begin('b', { address: 'elsewhere' })
        .list(['a', 'at-b', 'c', 'elsewhere'])
        .wait(17_100),
    'dead-master-removed',
  ],
  'a master comes back with another address, and the old one goes in time': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .begin('b', { address: 'elsewhere' })
        .list(['a', 'at-b', 'c', 'elsewhere'])
        .wait(15_100)
        .list(['a', 'c', 'elsewhere'])
        .wait(30_000),
  ],
  'a dead master had a longer lease in the life before': [
    () =>
      storyOfThree({ leaseTtlMs: 30_000 })
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', killed)
        .wait(31_000)
        .list(['a', 'c']),
  ],
  'a stopped server goes on, does the renewal that it was sent before, and its /readyz hangs': [
    () =>
      storyOfThree()
        .turn('b', serverStopped)
        .wait(12_000)
        .turn('b', { ...silent, connected: true, clientConnections: 'served' })
        .wait(16_900)
        .list(['a', 'c']),
  ],
  'a stopped server goes on, its /readyz hangs, and the renewal lasts longer than the TTL': [
    () =>
      storyOfThree()
        .turn('b', serverStopped)
        .wait(12_000)
        .turn('b', { ...silent, connected: true, clientConnections: 'served' })
        .wait(17_100),
    'dead-master-removed',
  ],
  'a stopped server is killed, and what it was sent is lost': [
    () => storyOfThree().turn('b', serverStopped).wait(12_000).turn('b', { clientConnections: 'refused' }).wait(5_100),
    'dead-master-removed',
  ],
  'kube-apiservers alone look at their ticks': [
    () =>
      storyOfThree({ kind: 'kube-apiserver', withdrawsEvenIfLast: true })
        .turn('b', killed)
        .wait(26_500)
        .list(['a', 'c'])
        .wait(30_000),
  ],
  'kube-apiservers alone leave a dead one for more than a tick': [
    () => storyOfThree({ kind: 'kube-apiserver', withdrawsEvenIfLast: true }).turn('b', killed).wait(27_500),
    'dead-master-removed',
  ],
  'an observer whose messages are slow sees it later': [
    () => slowStory(100).turn('b', killed).wait(19_300).list(['a', 'c']).wait(9_000),
  ],

  'an observer whose messages are slow sees it later than that takes': [
    () => slowStory(100).turn('b', killed).wait(19_500).list(['a', 'c']),
    'dead-master-removed',
  ],

  // live-master-listed
  'a master that came up is listed within the bound': [
    () => storyOfThree().add('d').wait(5_900).list(['a', 'b', 'c', 'd']).wait(10_000),
  ],
  'a master that came up is listed later': [
    () => storyOfThree().add('d').wait(6_100).list(['a', 'b', 'c', 'd']),
    'live-master-listed',
  ],
  'the bound decides': [() => storyOfThree({}, { listedMs: 9_000 }).add('d').wait(8_900).list(['a', 'b', 'c', 'd'])],
  'a kube-apiserver is listed at its first tick': [
    () => storyOfThree().add('d', { kind: 'kube-apiserver' }).wait(11_900).list(['a', 'b', 'c', 'd']),
  ],
  'what somebody spoiled is put right in time': [
    () => storyOfThree().list([], { byDamage: true }).wait(1_900).list(['a', 'b', 'c']).wait(5_000),
  ],
  'what somebody spoiled stays': [() => storyOfThree().list([], { byDamage: true }).wait(2_100), 'live-master-listed'],
  'a master that becomes well while its messages are slow has its time from when they are no more': [
    () =>
      storyOfThree()
        .add('d', { delayMs: 200 })
        .wait(10_000)
        .turn('d', { delayMs: 0 })
        .wait(8_300)
        .list(['a', 'b', 'c', 'd'])
        .wait(10_000),
  ],
  'a master that became well while its messages were slow is not listed when they long are no more': [
    () => storyOfThree().add('d', { delayMs: 200 }).wait(10_000).turn('d', { delayMs: 0 }).wait(9_000),
    'live-master-listed',
  ],
  'a master whose messages take longer than its lease bears need not be listed': [
    () => storyOfThree().add('d', { delayMs: 500, leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }).wait(60_000),
  ],

  // stopped-master-leaves
  'a master that is told to stop leaves at once': [
    () => storyOfThree().turn('b', stopped).wait(2_900).list(['a', 'c']).wait(30_000),
  ],
  'a master that is told to stop stays': [() => storyOfThree().turn('b', stopped).wait(3_100), 'stopped-master-leaves'],
  'a slow master that is told to stop has the time of a renewal more': [
    () =>
      storyOfThree()
        .turn('b', { ...stopped, delayMs: 100 })
        .wait(5_300)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'a slow master that is told to stop stays longer': [
    () =>
      storyOfThree()
        .turn('b', { ...stopped, delayMs: 100 })
        .wait(5_600),
    'stopped-master-leaves',
  ],
  'a master that is told to stop waits for a confirmation of slow ones': [
    () =>
      storyOfThree()
        .turn('a', { delayMs: 100 })
        .turn('c', { delayMs: 100 })
        .turn('b', stopped)
        .wait(4_100)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'a master that is told to stop needs no confirmation of slow ones beside a quick one': [
    () => storyOfThree().turn('a', { delayMs: 100 }).turn('b', stopped).wait(3_100),
    'stopped-master-leaves',
  ],
  'a master whose server does not answer is told to stop, and leaves when it has asked for three seconds': [
    () =>
      storyOfThree()
        .turn('b', { ...silent, connected: true })
        .turn('b', { ...stopped, ended: false })
        .wait(5_900)
        .list(['a', 'c'])
        .wait(30_000),
  ],
  'a master whose server does not answer is told to stop, and stays': [
    () =>
      storyOfThree()
        .turn('b', { ...silent, connected: true })
        .turn('b', { ...stopped, ended: false })
        .wait(6_100),
    'stopped-master-leaves',
  ],
  'a master that keeps its place when it stops may stay until its lease ends': [
    () => storyOfThree({ withdrawsOnStop: false }).turn('b', stopped).wait(15_500).list(['a', 'c']),
  ],
  'a master that is cut off cannot say that it leaves': [
    () => storyOfThree().turn('b', cut).turn('b', stopped).wait(10_000),
  ],
  'a master that is cut off ends, and what cut it off is over then': [
    () =>
      storyOfThree()
        .turn('b', cut)
        .turn('b', stopped)
        .wait(1_000)
        .turn('b', { connected: true, answering: true, serves: true })
        .wait(10_000),
  ],
  'a master that is cut off is told to stop, and is still there when that is over': [
    () =>
      storyOfThree()
        .turn('b', cut)
        .turn('b', { ...stopped, ended: false })
        .wait(1_000)
        .turn('b', { connected: true, answering: true, serves: true })
        .wait(6_100),
    'stopped-master-leaves',
  ],
  'a master that is told to stop before it was ready leaves its earlier life’s lease to its end': [
    () =>
      storyOfThree()
        .turn('b', sidecarKilled)
        .begin('b', { hasBeenReady: false, serves: false })
        .turn('b', { ...stopped, hasBeenReady: false })
        .wait(14_000)
        .list(['a', 'c']),
  ],
  'the last one stays': [
    () => new FleetStory({ a: {}, b: {} }).turn('a', killed).wait(5_000).turn('b', stopped).wait(60_000),
  ],
  'one that took over the address of a dead one leaves before the dead one’s lease has ended': [
    () => {
      const story = storyOfThree().turn('b', killed).wait(1_000).add('d', { address: 'at-b' }).wait(10_000)
      return story.turn('d', stopped).wait(14_000).list(['a', 'c']).wait(30_000)
    },
  ],
  'one that took over the address of a dead one long ago is told to stop, and stays': [
    () => {
      const story = storyOfThree().turn('b', killed).wait(1_000).add('d', { address: 'at-b' }).wait(30_000)
      return story.turn('d', stopped).wait(3_600)
    },
    'stopped-master-leaves',
  ],
  'an address stays for another behind it': [
    () => new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip' } }).turn('b', stopped).wait(60_000),
  ],

  // unready-master-leaves
  'an unready master leaves in time': [
    () => storyOfThree().turn('b', unready).wait(7_900).list(['a', 'c']).wait(30_000),
  ],
  'an unready master stays': [() => storyOfThree().turn('b', unready).wait(8_600), 'unready-master-leaves'],
  'an unready master stays that waits for its start only': [
    () => storyOfThree({ leavesWhenUnready: false }).turn('b', unready).wait(45_000),
  ],
  'an unready master waits for one whose server failed again before it could confirm anything': [
    () => recoveredStory().turn('a', silent).wait(1_000).turn('a', BACK).wait(10_000).turn('b', unready).wait(18_000),
  ],
  'an unready master waits for one whose server failed again when it could just confirm, as far as its probes tell': [
    () => {
      const story = recoveredStory().wait(13_000).turn('a', silent).wait(1_000).turn('a', BACK).wait(6_500)
      return story.turn('b', unready).wait(11_000)
    },
  ],
  'an unready master stays although the server of another has failed only a probe now and then for long': [
    () => {
      const story = recoveredStory()
      for (const afterMs of [36_000, 61_000, 99_000]) story.turn('a', silent).wait(1_000).turn('a', BACK).wait(afterMs)
      return story.turn('b', unready).wait(20_000)
    },
    'unready-master-leaves',
  ],
  'an unready master waits for one whose server failed for long, soon after its start': [
    () => {
      const story = new FleetStory({ b: {} }).add('a').list(['a', 'b']).wait(2_000).turn('a', silent).wait(4_000)
      story.list(['b']).wait(26_000).turn('a', BACK).list(['a', 'b']).wait(10_000)
      return story.turn('b', unready).wait(21_000)
    },
  ],
  'a master of whose server only etcd fails waits beside a kube-apiserver until another of ours confirms': [
    () => besideKubeApiserver().turn('b', { serves: false, etcdFails: true }).wait(10_000),
  ],
  'an unready master stays beside a kube-apiserver': [
    () => besideKubeApiserver().turn('b', unready).wait(10_000),
    'unready-master-leaves',
  ],
  'an unready master waits though the server of another failed long ago': [
    () => recoveredStory().turn('b', unready).wait(45_000),
    'unready-master-leaves',
  ],
  'all are unready, and all stay': [
    () => storyOfThree().turn('a', unready).turn('b', unready).turn('c', unready).wait(60_000),
  ],

  // Clients use the slice, whoever else writes it.
  'beside a kube-apiserver, the slice lacks a master for as long as a correction takes': [
    () => mixedStory(['a', 'k']).wait(1_900).list(['a', 'b', 'k'], { only: 'slice' }).wait(30_000),
  ],
  'beside a kube-apiserver, the slice lacks a master that Endpoints list': [
    () => mixedStory(['a', 'k']).wait(2_500),
    'endpoints-and-slice-agree',
    'live-master-listed',
  ],
  'beside a kube-apiserver, only the slice lists an address that is nobody’s': [
    () => mixedStory(['a', 'b', 'k', 'foreign']).wait(20_100),
    'endpoints-and-slice-agree',
    'in-sync-after-the-last-fault',
  ],

  // in-sync-after-the-last-fault
  'an address that is nobody’s is listed for less than the recovery takes': [
    () =>
      storyOfThree()
        .list(['a', 'b', 'c', 'foreign'], { byDamage: true })
        .wait(19_900)
        .list(['a', 'b', 'c'])
        .wait(30_000),
  ],
  'an address that is nobody’s is listed long after the last fault': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign'], { byDamage: true }).wait(20_100),
    'in-sync-after-the-last-fault',
  ],
  'the recovery begins when the API servers take writes again': [
    () => outageStory().wait(3_900).list(['a', 'b', 'c']).wait(30_000),
  ],
  'the recovery takes longer than the bound, from when the API servers take writes again': [
    () => outageStory().wait(4_100),
    'in-sync-after-the-last-fault',
  ],
  'one that died long before is not listed when all is over': [
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

tellStories(stories)
