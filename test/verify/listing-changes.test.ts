import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, testStories } from './stories.ts'

const { killed, sidecarKilled, stopped, unready, silent, cut, storeCut } = incidents
const BACK = { connected: true, answering: true, serves: true, ready: true }

const stories: Stories = {
  // never-empty
  'the list is emptied while a master is alive': [
    () => storyOfThree().turn('b', killed).turn('c', killed).wait(16_000).list([]).list(['a']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'the EndpointSlice is deleted while masters are alive': [
    () => storyOfThree().list(undefined, { only: 'slice' }).list(['a', 'b', 'c'], { only: 'slice' }),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'an outsider empties the list': [
    () => storyOfThree().list([], { byDamage: true }).list(['a', 'b', 'c']).wait(10_000),
  ],
  'the list becomes empty when no server answers any longer': [
    () => {
      const story = storyOfThree().turn('b', killed).turn('c', killed).wait(16_000).list(['a'])
      return story.turn('a', silent).wait(4_000).turn('a', stopped).list([]).wait(30_000)
    },
  ],
  'the last master withdraws although its server answers': [
    () => new FleetStory({ a: {}, b: {} }).turn('b', killed).wait(16_000).list(['a']).turn('a', stopped).list([]),
    'never-empty',
  ],
  'the last master withdraws, which its configuration allows': [
    () =>
      new FleetStory({ a: { withdrawsEvenIfLast: true }, b: { withdrawsEvenIfLast: true } })
        .turn('b', killed)
        .wait(16_000)
        .list(['a'])
        .turn('a', stopped)
        .list([]),
  ],
  'a master that may withdraw as the last one empties the list while another is alive': [
    () => new FleetStory({ a: { withdrawsEvenIfLast: true }, b: {} }).turn('a', stopped).list([]).list(['b']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'not-removed-by-others',
  ],
  'a master whose server does not answer empties the list while others are alive': [
    () => storyOfThree().turn('a', silent).wait(4_000).list(['b', 'c']).list([]).list(['b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'a stopping master whose server does not answer empties the list before the restarted others were ready': [
    () => {
      const story = storyOfThree().turn('b', unready).turn('c', unready).turn('a', silent).wait(1_000)
      for (const name of ['b', 'c']) story.turn(name, stopped)
      story.list(['a'])
      for (const name of ['b', 'c']) story.begin(name, { hasBeenReady: false, serves: false, ready: false })
      return story
        .turn('a', { ...stopped, ended: false })
        .wait(3_000)
        .list([])
        .wait(1_000)
    },
  ],
  'an unknown writer empties the list while a master is alive': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .turn('c', killed)
        .wait(16_000)
        .list(['a'])
        .list([], { by: undefined })
        .list(['a']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],

  'a master that may withdraw as the last one does so before it can know that another server answers again': [
    () => alwaysStory().wait(1_500).turn('a', stopped).list([]).list(['b']),
  ],
  'a master that may withdraw as the last one does so when it must know that another server answers again': [
    () => alwaysStory().wait(5_100).turn('a', stopped).list([]).list(['b']),
    'never-empty',
  ],
  'a master that may withdraw as the last one does so soon after etcd refused the writes of another': [
    () =>
      new FleetStory({ a: { withdrawsEvenIfLast: true }, b: { withdrawsEvenIfLast: true } })
        .turn('b', storeCut)
        .wait(16_000)
        .list(['a'])
        .turn('b', { storeFull: true })
        .wait(1_000)
        .turn('b', { storeFull: false, connected: true })
        .wait(5_100)
        .turn('a', stopped)
        .list([])
        .list(['b']),
  ],

  // not-removed-by-others
  'another master is removed along with the stopped one': [
    () => storyOfThree().turn('b', stopped).wait(500).list(['a']).wait(500).list(['a', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'not-removed-by-others',
  ],
  'only the stopped master is removed': [
    () => storyOfThree().turn('b', stopped).wait(500).list(['a', 'c']).wait(60_000),
  ],
  'a sidecar is killed and restarted, and its address stays listed': [
    () => storyOfThree().turn('b', sidecarKilled).wait(1_000).begin('b').wait(60_000),
  ],
  'a sidecar is killed and restarted, and its address is removed for a moment': [
    () =>
      storyOfThree().turn('b', sidecarKilled).wait(1_000).begin('b').wait(100).list(['a', 'c']).list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'a sidecar restarts after its lease may have expired, and its address is removed for a moment': [
    () =>
      storyOfThree()
        .turn('b', sidecarKilled)
        .wait(15_000)
        .begin('b')
        .wait(100)
        .list(['a', 'c'])
        .wait(100)
        .list(['a', 'b', 'c']),
  ],
  'a sidecar that does not withdraw on stop restarts, and its address is removed': [
    () =>
      storyOfThree({ withdrawsOnStop: false })
        .turn('b', stopped)
        .begin('b')
        .wait(100)
        .list(['a', 'c'])
        .list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'two processes of a sidecar overlap, and its address is removed': [
    () => storyOfThree().begin('b').wait(3_000).list(['a', 'c']).list(['a', 'b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'not-removed-by-others',
  ],
  'of two overlapping processes the earlier withdraws the address before the later has been ready': [
    () => storyOfThree().begin('b', { hasBeenReady: false, serves: false }).wait(1_000).list(['a', 'c']),
  ],
  'of two overlapping processes the earlier withdraws the address before the later could write its lease': [
    () =>
      storyOfThree()
        .begin('b', { connected: false })
        .wait(1_000)
        .turn('b', { connected: true })
        .wait(200)
        .list(['a', 'c'])
        .list(['a', 'b', 'c'])
        .wait(20_000),
  ],

  // no-address-goes-without-cause
  'an address is removed for no reason': [
    () => storyOfThree().list(['a', 'c']).list(['a', 'b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'an address is removed for no reason from the Endpoints alone': [
    () => storyOfThree().list(['a', 'c'], { only: 'endpoints' }).list(['a', 'b', 'c'], { only: 'endpoints' }),
    'listed-master-stays',
    'no-address-goes-without-cause',
  ],
  'an outsider removes an address, and a master lists it again': [
    () => storyOfThree().list(['a', 'c'], { byDamage: true }).wait(500).list(['a', 'b', 'c']).wait(10_000),
  ],
  'a master restores a list that an outsider emptied, but without one address': [
    () => storyOfThree().list([], { byDamage: true }).list(['a', 'c']).wait(500).list(['a', 'b', 'c']).wait(5_000),
    'listed-master-stays',
    'no-address-goes-without-cause',
  ],
  'a master whose requests are too slow to renew its lease is removed': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', { delayMs: 500 })
        .wait(2_600)
        .list(['a', 'c'])
        .wait(20_000),
  ],
  'an address is removed while its unrenewed lease is still valid': [
    () => storyOfThree().turn('b', storeCut).wait(4_400).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'an address is removed when its lease may have expired, because a renewal was due': [
    () => storyOfThree().turn('b', storeCut).wait(4_600).list(['a', 'c']),
  ],
  'an address is removed after an outage in which its lease could not expire': [
    () => {
      const story = storyOfThree()
      for (const name of ['a', 'b', 'c']) story.turn(name, storeCut)
      story.leasesCannotExpire = true
      story.wait(30_000)
      for (const name of ['a', 'b', 'c']) story.turn(name, BACK)
      story.leasesCannotExpire = false
      return story.wait(1_000).list(['a', 'c']).list(['a', 'b', 'c'])
    },
    'no-address-goes-without-cause',
  ],
  'a master is frozen at the end of an outage, does not renew its lease in time and is removed': [
    () => {
      const story = storyOfThree()
      for (const name of ['a', 'b', 'c']) story.turn(name, storeCut)
      story.leasesCannotExpire = true
      story.wait(3_000)
      for (const name of ['a', 'b', 'c']) story.turn(name, BACK)
      story.leasesCannotExpire = false
      return story.turn('b', { frozen: true, running: false }).wait(2_000).list(['a', 'c'])
    },
  ],
  'an unready master is removed after three seconds': [
    () => storyOfThree().turn('b', unready).wait(3_000).list(['a', 'c']),
  ],
  'an unready master is removed after less than three seconds': [
    () => storyOfThree().turn('b', unready).wait(2_500).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'all masters were unready, and one is removed that may report its recovery later than another': [
    () => readyAgainStory(2_500).list(['a', 'b']).wait(500).list(['a', 'b', 'c']).wait(60_000),
  ],
  'all masters were unready, and one is removed that must have reported its recovery': [
    () => readyAgainStory(4_000).list(['a', 'b']).wait(500).list(['a', 'b', 'c']).wait(60_000),
    'no-address-goes-without-cause',
  ],
  'a master is removed that was unready too briefly to report it': [
    () =>
      storyOfThree().turn('b', unready).wait(1_500).turn('b', BACK).wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']),
    'no-address-goes-without-cause',
  ],
  'an unready master that waits for readiness only at startup is removed': [
    () => storyOfThree({ leavesWhenUnready: false }).turn('b', unready).wait(3_000).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'a master that has just started is removed and listed again': [
    () =>
      storyOfThree()
        .add('d')
        .list(['a', 'b', 'c', 'd'])
        .wait(500)
        .list(['a', 'b', 'c'])
        .wait(500)
        .list(['a', 'b', 'c', 'd']),
  ],
  'a master whose server does not answer is removed, and listed again after it recovers': [
    () =>
      storyOfThree()
        .turn('b', silent)
        .wait(4_000)
        .list(['a', 'c'])
        .wait(20_000)
        .turn('b', BACK)
        .wait(3_000)
        .list(['a', 'b', 'c'])
        .wait(20_000),
  ],
  'a master that only clients cannot reach stays listed': [
    () => storyOfThree().turn('b', { clientConnections: 'black-holed' }).wait(60_000),
  ],
  'a master that only clients cannot reach is removed': [
    () =>
      storyOfThree()
        .turn('b', { clientConnections: 'black-holed' })
        .wait(30_000)
        .list(['a', 'c'])
        .list(['a', 'b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'a master restarts with a shorter TTL, is killed, and is removed when that may have passed': [
    () =>
      storyOfThree()
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', sidecarKilled)
        .wait(2_000)
        .list(['a', 'c']),
  ],
  'a master restarts with a longer TTL, is killed, and is removed when the shorter one may have passed': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 30_000, reconcileIntervalMs: 10_000 })
        .turn('b', sidecarKilled)
        .wait(2_000)
        .list(['a', 'c']),
  ],

  'the lease of a shared address expires early, because the other master has a shorter TTL': [
    () => {
      const short = { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }
      const story = new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip', ...short } })
      return story.turn('c', stopped).wait(1_000).list(['a']).list(['a', 'b']).wait(30_000)
    },
  ],
  'after the Service was deleted, a kube-apiserver is removed and listed again': [
    () => deletedServiceStory(true).list(['a']).wait(5_000).list(['a', 'k']).wait(60_000),
  ],
  'a kube-apiserver is removed for no reason': [
    () => deletedServiceStory(false).list(['a']).wait(500).list(['a', 'k']),
    'live-master-listed',
    'no-address-goes-without-cause',
  ],

  // no-address-comes-without-cause
  'an unknown address is added': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign']).list(['a', 'b', 'c']),
    'no-address-comes-without-cause',
  ],
  'an outsider adds an address': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign'], { byDamage: true }).list(['a', 'b', 'c']),
  ],
  'a master preserves an address that an outsider has added': [
    () =>
      storyOfThree()
        .list(['a', 'b', 'c', 'foreign'], { byDamage: true })
        .list(['a', 'b', 'c', 'foreign'])
        .list(['a', 'b', 'c']),
    'no-address-comes-without-cause',
  ],
  'a master started during an outage preserves an address that an outsider then added to both objects': [
    () => strangerStory({ restarted: true, afterMs: 500 }),
  ],
  'a master started during an outage lists the address of an outsider long after the outage': [
    () => strangerStory({ restarted: true, afterMs: 20_000 }),
    'no-address-comes-without-cause',
  ],
  'a master started before an outage preserves an address that an outsider added to both objects meanwhile': [
    () => strangerStory({ restarted: false, afterMs: 500 }),
    'no-address-comes-without-cause',
  ],
  'a dead master is listed again': [
    () =>
      storyOfThree().turn('b', killed).wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c']),
    'no-address-comes-without-cause',
  ],
  'a stopping master that has not ended is listed again': [
    () => {
      const story = storyOfThree().turn('b', { stopping: true, running: false, renewing: false })
      return story.wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c'])
    },
    // It does not also break no-address-comes-without-cause, because the master lives.
    'stopped-master-leaves',
  ],
  'a dead master is listed again while its lease may still be valid': [
    () =>
      storyOfThree().turn('b', killed).wait(15_200).list(['a', 'c']).wait(1_000).list(['a', 'b', 'c']).list(['a', 'c']),
  ],
  'a running master that cannot renew its lease is listed again': [
    () =>
      storyOfThree().turn('b', cut).wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c']),
  ],
  'the address of a dead master is listed again for a new master': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .wait(15_200)
        .list(['a', 'c'])
        .wait(5_000)
        .add('d', { address: 'at-b' })
        .wait(1_000)
        .list(['a', 'd', 'c'])
        .wait(60_000),
  ],
  'a master that died while all others were cut off is listed for one more TTL': [
    () => {
      const story = storyOfThree()
      for (const name of ['a', 'c']) story.turn(name, cut)
      story.turn('b', killed).wait(30_000).list(['a', 'c'], { byDamage: true })
      for (const name of ['a', 'c']) story.turn(name, BACK)
      return story.wait(500).list(['a', 'b', 'c']).wait(15_000).list(['a', 'c']).wait(30_000)
    },
  ],
  'a master that died while the other was cut off is listed for one more TTL, though the other server is not ready': [
    () => hangingStory().wait(500).list(['a', 'b']).wait(15_000).list(['a']),
  ],
  'a master that died while the other was cut off is listed again after that TTL': [
    () => hangingStory().wait(19_500).list(['a', 'b']).list(['a']),
    'no-address-comes-without-cause',
  ],
  'a dead master removed by a kube-apiserver is listed again by a master that was cut off when it died': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, k: { kind: 'kube-apiserver' } })
        .turn('a', storeCut)
        .turn('b', killed)
      story
        .wait(24_000)
        .list(['a', 'k'], { by: 'k' })
        .turn('a', BACK)
        .wait(500)
        .list(['a', 'b', 'k'], { only: 'endpoints' })
      return story.wait(1_000).list(['a', 'k'], { only: 'endpoints' })
    },
  ],
  'a kube-apiserver restores an old EndpointSlice with a dead master': [
    () =>
      new FleetStory({ a: {}, b: {}, c: { kind: 'kube-apiserver' } })
        .turn('b', killed)
        .wait(15_200)
        .list(['a', 'c'])
        .wait(5_000)
        .list(['a', 'b', 'c'], { only: 'slice', by: 'c' })
        .list(['a', 'c'], { only: 'slice' }),
  ],
  'a kube-apiserver removes a ready master from the EndpointSlice': [
    () => mixedStory('k'),
    'no-address-goes-without-cause',
  ],
  'beside a kube-apiserver, a sidecar removes another ready master from the EndpointSlice': [
    () => mixedStory('a'),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'beside a kube-apiserver, a sidecar adds a dead master to the EndpointSlice': [
    () =>
      new FleetStory({ a: {}, b: {}, k: { kind: 'kube-apiserver' } })
        .turn('b', killed)
        .wait(15_200)
        .list(['a', 'k'])
        .wait(5_000)
        .list(['a', 'b', 'k'], { only: 'slice', by: 'a' })
        .list(['a', 'k'], { only: 'slice', by: 'a' }),
    'no-address-comes-without-cause',
  ],

  // unready-leaves-only-for-ready
  'an unready master leaves although the others have been unready for longer': [
    () =>
      storyOfThree().turn('a', unready).turn('c', unready).wait(500).turn('b', unready).wait(4_000).list(['a', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'of masters that became unready together, one leaves before it has checked the others': [
    () => togetherStory(3_500),
    'unready-leaves-only-for-ready',
  ],
  'of masters that became unready together, one leaves a second after it reported that': [
    () => togetherStory(4_200),
    'unready-leaves-only-for-ready',
  ],
  'of masters that became unready together, one leaves after it has checked the others': [
    () => togetherStory(5_100),
    'unready-leaves-only-for-ready',
  ],
  'an unready master leaves in favour of another whose answers were late meanwhile': [
    () => lateAnswersStory('rest').list(['a', 'c']).wait(2_000).turn('b', BACK).wait(2_000).list(['a', 'b', 'c']),
  ],
  'an unready master leaves in favour of another that did not answer meanwhile': [
    () => lateAnswersStory('no').list(['a', 'c']).wait(2_000).turn('b', BACK).wait(2_000).list(['a', 'b', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'an unready master leaves in favour of another whose server hung too briefly to be noticed': [
    () => hangingProbeStory(4_400),
  ],
  'an unready master leaves in favour of another that must have noticed that its own server hung': [
    () => hangingProbeStory(4_500),
    'unready-leaves-only-for-ready',
  ],
  'all masters were unready together and are ready again, and one is removed': [
    () => againStory().wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']).wait(30_000),
    'unready-leaves-only-for-ready',
  ],
  'all masters were unready, one from a little later, and are ready again, and one is removed': [
    () => againStory(500).wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']).wait(30_000),
  ],
  'a leaving kube-apiserver removes an unready master from the EndpointSlice': [
    () => {
      const story = new FleetStory({ a: {}, k: { kind: 'kube-apiserver', withdrawsEvenIfLast: true } })
      story.turn('a', unready).wait(5_500).list(['k']).turn('k', stopped).list([], { by: 'k' }).list(['a'])
      return story.list([], { only: 'slice', by: 'k' }).list(['a'], { only: 'slice' })
    },
  ],
  'all masters become unready together, one recovers, and long afterwards an unready one leaves': [
    () => {
      const story = storyOfThree().turn('a', unready).turn('b', unready).turn('c', unready).wait(10_000)
      return story.turn('a', BACK).wait(20_000).list(['a', 'c']).wait(2_000)
    },
  ],
  'all masters fail together with their datastore, one recovers, and an unready one leaves too early': [
    () => storeOutageStory().wait(5_500).list(['a', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'all masters fail together with their datastore, one recovers, and an unready one leaves when that may confirm it': [
    () => storeOutageStory().wait(6_500).list(['a', 'c']),
  ],
  'two unready masters leave in favour of one that serves': [
    () => storyOfThree().turn('a', unready).wait(500).turn('b', unready).wait(4_000).list(['c']).wait(60_000),
  ],
}

/** Of three ready members one is missing from the slice for a moment. */
function mixedStory(by: string): FleetStory {
  const story = new FleetStory({ a: {}, b: {}, k: { kind: 'kube-apiserver' } }).wait(10_000)
  return story.list(['a', 'k'], { only: 'slice', by }).list(['a', 'b', 'k'], { only: 'slice', by: 'a' })
}

/** Two masters that withdraw even if they are the last. The one that is not listed is healthy again. */
function alwaysStory(): FleetStory {
  const story = new FleetStory({ a: { withdrawsEvenIfLast: true }, b: { withdrawsEvenIfLast: true } })
  return story.turn('b', silent).wait(16_000).list(['a']).turn('b', BACK)
}

/** One server fails, then the others, so that all members are listed. Then all servers are ready again. */
function readyAgainStory(afterMs: number): FleetStory {
  const story = storyOfThree({ leaseTtlMs: 60_000 })
    .turn('c', unready)
    .wait(6_000)
    .list(['a', 'b'])
    .turn('a', unready)
    .turn('b', unready)
  story.wait(6_000).list(['a', 'b', 'c'])
  for (const name of ['a', 'b', 'c']) story.turn(name, { serves: true, ready: true })
  return story.wait(afterMs)
}

/** All servers fail, one of them `laterMs` later, and are ready again. */
function againStory(laterMs = 0): FleetStory {
  const story = storyOfThree().turn('a', unready).turn('b', unready).wait(laterMs).turn('c', unready).wait(10_000)
  for (const name of ['a', 'b', 'c']) story.turn(name, { serves: true, ready: true })
  return story
}

/** The servers of both masters hang. One master dies while the other is cut off; then the other is connected again. */
function hangingStory(): FleetStory {
  const story = new FleetStory({ a: {}, b: {} }).turn('a', silent).turn('b', silent).wait(2_500)
  story.turn('a', { connected: false }).wait(12_000).list(['a'], { by: 'b' }).turn('b', killed).wait(4_000)
  return story.turn('a', { connected: true })
}

/** The servers of a and c do not answer. Then the server of b fails, and those of a and c recover. */
function lateAnswersStory(impaired: 'no' | 'rest'): FleetStory {
  const story = storyOfThree()
    .turn('a', { ...silent, impaired })
    .turn('c', silent)
    .wait(8_000)
    .turn('b', unready)
  return story
    .wait(3_500)
    .turn('c', BACK)
    .turn('a', { ...BACK, impaired: 'no' })
    .wait(500)
}

/** One server hangs. The other fails soon afterwards, and its master leaves when the first server answers again. */
function hangingProbeStory(hangsMs: number): FleetStory {
  const story = new FleetStory({ a: {}, b: {} })
    .turn('a', silent)
    .wait(800)
    .turn('b', unready)
    .wait(hangsMs - 800)
  return story.turn('a', BACK).wait(300).list(['a']).turn('b', BACK).wait(3_000).list(['a', 'b']).wait(20_000)
}

/** All servers fail for twelve seconds, in which no lease can expire. Then one is ready again. */
function storeOutageStory(): FleetStory {
  const story = storyOfThree()
  story.leasesCannotExpire = true
  for (const name of ['a', 'b', 'c']) story.turn(name, unready)
  story.wait(12_000)
  story.leasesCannotExpire = false
  return story.turn('a', BACK)
}

/** All servers fail at the same moment, and one master leaves. */
function togetherStory(afterMs: number): FleetStory {
  const story = storyOfThree().turn('a', unready).turn('b', unready).turn('c', unready)
  return story.wait(afterMs).list(['a', 'c'])
}

/**
 * No master can renew its lease, and somebody puts a foreign address into both lists. With `restarted`, the sidecar of
 * a is restarted before that. After the outage a lists the foreign address.
 */
function strangerStory({ restarted, afterMs }: { readonly restarted: boolean; readonly afterMs: number }): FleetStory {
  const story = storyOfThree()
  for (const name of ['a', 'b', 'c']) story.turn(name, cut)
  story.wait(5_000)
  if (restarted) story.begin('a', cut)
  story.list(['a', 'b', 'c', 'foreign'], { byDamage: true }).wait(5_000)
  for (const name of ['a', 'b', 'c']) story.turn(name, BACK)
  return story.wait(afterMs).list(['a', 'b', 'c', 'foreign']).wait(500).list(['a', 'b', 'c']).wait(30_000)
}

/** Somebody deletes the Service, and it is created again. */
function deletedServiceStory(byDamage: boolean): FleetStory {
  const story = new FleetStory({ a: {}, k: { kind: 'kube-apiserver' } })
  const namespaces = ['default', 'kube-node-lease', 'kube-public', 'kube-system']
  if (byDamage) story.find({ service: undefined, namespaces }, true)
  return story.wait(10_000)
}

testStories(stories)
