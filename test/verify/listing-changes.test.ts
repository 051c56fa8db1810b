import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, tellStories } from './stories.ts'

const { killed, sidecarKilled, stopped, unready, silent, cut, storeCut } = incidents
const BACK = { connected: true, answering: true, serves: true, ready: true }

const stories: Stories = {
  // never-empty
  'a list of nobody while somebody lives': [
    () => storyOfThree().turn('b', killed).turn('c', killed).wait(16_000).list([]).list(['a']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'the slice is gone while somebody lives': [
    () => storyOfThree().list(undefined, { only: 'slice' }).list(['a', 'b', 'c'], { only: 'slice' }),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'somebody empties the list': [() => storyOfThree().list([], { byDamage: true }).list(['a', 'b', 'c']).wait(10_000)],
  'no server answers any more when the list becomes empty': [
    () => {
      const story = storyOfThree().turn('b', killed).turn('c', killed).wait(16_000).list(['a'])
      return story.turn('a', silent).wait(4_000).turn('a', stopped).list([]).wait(30_000)
    },
  ],
  'the last one takes itself out though its server answers': [
    () => new FleetStory({ a: {}, b: {} }).turn('b', killed).wait(16_000).list(['a']).turn('a', stopped).list([]),
    'never-empty',
  ],
  'the last one takes itself out as it was told to, whatever becomes of the list': [
    () =>
      new FleetStory({ a: { withdrawsEvenIfLast: true }, b: { withdrawsEvenIfLast: true } })
        .turn('b', killed)
        .wait(16_000)
        .list(['a'])
        .turn('a', stopped)
        .list([]),
  ],
  'one that is not the last empties the list though it may': [
    () => new FleetStory({ a: { withdrawsEvenIfLast: true }, b: {} }).turn('a', stopped).list([]).list(['b']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'not-removed-by-others',
  ],
  'one whose server does not answer empties the list while others live': [
    () => storyOfThree().turn('a', silent).wait(4_000).list(['b', 'c']).list([]).list(['b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'never-empty',
    'no-address-goes-without-cause',
  ],
  'one whose server does not answer empties the list, and the others’ lives have not been ready yet': [
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
  'nobody knows who emptied the list, and somebody lives': [
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

  'one that takes itself out whatever becomes of the list does not know yet that another’s server answers again': [
    () => alwaysStory().wait(1_500).turn('a', stopped).list([]).list(['b']),
  ],
  'one that takes itself out whatever becomes of the list knows that another’s server answers again': [
    () => alwaysStory().wait(5_100).turn('a', stopped).list([]).list(['b']),
    'never-empty',
  ],
  'one that takes itself out whatever becomes of the list does not know of another that etcd refused a moment ago': [
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
  'another goes beside the one that is told to stop': [
    () => storyOfThree().turn('b', stopped).wait(500).list(['a']).wait(500).list(['a', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'not-removed-by-others',
  ],
  'the one that is told to stop goes alone': [
    () => storyOfThree().turn('b', stopped).wait(500).list(['a', 'c']).wait(60_000),
  ],
  'a sidecar is killed and started again, and its address stays': [
    () => storyOfThree().turn('b', sidecarKilled).wait(1_000).begin('b').wait(60_000),
  ],
  'a sidecar is killed and started again, and its address goes for a moment': [
    () =>
      storyOfThree().turn('b', sidecarKilled).wait(1_000).begin('b').wait(100).list(['a', 'c']).list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'a sidecar is started again after its lease may have ended': [
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
  'a sidecar is restarted that keeps its lease, and its address goes': [
    () =>
      storyOfThree({ withdrawsOnStop: false })
        .turn('b', stopped)
        .begin('b')
        .wait(100)
        .list(['a', 'c'])
        .list(['a', 'b', 'c']),
    'not-removed-by-others',
  ],
  'the lives of a sidecar overlap, and its address goes': [
    () => storyOfThree().begin('b').wait(3_000).list(['a', 'c']).list(['a', 'b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'not-removed-by-others',
  ],
  'the later life has not been ready yet when the earlier one is told to stop': [
    () => storyOfThree().begin('b', { hasBeenReady: false, serves: false }).wait(1_000).list(['a', 'c']),
  ],
  'the later life could not write its lease yet when the earlier one is told to stop': [
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
  'an address goes for no reason': [
    () => storyOfThree().list(['a', 'c']).list(['a', 'b', 'c']),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'an address goes from Endpoints alone': [
    () => storyOfThree().list(['a', 'c'], { only: 'endpoints' }).list(['a', 'b', 'c'], { only: 'endpoints' }),
    'listed-master-stays',
    'no-address-goes-without-cause',
  ],
  'an address goes with the damage, and comes back without it': [
    () => storyOfThree().list(['a', 'c'], { byDamage: true }).wait(500).list(['a', 'b', 'c']).wait(10_000),
  ],
  'what somebody spoiled is put right without one of them': [
    () => storyOfThree().list([], { byDamage: true }).list(['a', 'c']).wait(500).list(['a', 'b', 'c']).wait(5_000),
    'listed-master-stays',
    'no-address-goes-without-cause',
  ],
  'a master whose messages take longer than its lease bears goes': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', { delayMs: 500 })
        .wait(2_600)
        .list(['a', 'c'])
        .wait(20_000),
  ],
  'an address goes while its lease is still good, which was not renewed for a while': [
    () => storyOfThree().turn('b', storeCut).wait(4_400).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'an address goes when its lease may have ended, had it been about to be renewed': [
    () => storyOfThree().turn('b', storeCut).wait(4_600).list(['a', 'c']),
  ],
  'a lease that stood still is no lease that ended': [
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
  'a master sleeps when an outage is over, and does not renew its lease in time': [
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
  'an unready master goes after three seconds': [() => storyOfThree().turn('b', unready).wait(3_000).list(['a', 'c'])],
  'an unready master goes before': [
    () => storyOfThree().turn('b', unready).wait(2_500).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'of those that were all unready and are ready again, one goes that says so later than another': [
    () => readyAgainStory(2_500).list(['a', 'b']).wait(500).list(['a', 'b', 'c']).wait(60_000),
  ],
  'of those that were all unready and are ready again, one goes that must have said so': [
    () => readyAgainStory(4_000).list(['a', 'b']).wait(500).list(['a', 'b', 'c']).wait(60_000),
    'no-address-goes-without-cause',
  ],
  'a master that was not ready too briefly to say so goes': [
    () =>
      storyOfThree().turn('b', unready).wait(1_500).turn('b', BACK).wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']),
    'no-address-goes-without-cause',
  ],
  'an unready master goes though only its start waits for it': [
    () => storyOfThree({ leavesWhenUnready: false }).turn('b', unready).wait(3_000).list(['a', 'c']),
    'no-address-goes-without-cause',
  ],
  'a master that just started may be taken out and put back': [
    () =>
      storyOfThree()
        .add('d')
        .list(['a', 'b', 'c', 'd'])
        .wait(500)
        .list(['a', 'b', 'c'])
        .wait(500)
        .list(['a', 'b', 'c', 'd']),
  ],
  'a frozen server has its address taken out': [
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
  'clients alone cannot reach a master, which stays listed': [
    () => storyOfThree().turn('b', { clientConnections: 'black-holed' }).wait(60_000),
  ],
  'clients alone cannot reach a master, and it goes': [
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
  'a master with a shorter TTL than before may go as soon as that has passed': [
    () =>
      storyOfThree()
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', sidecarKilled)
        .wait(2_000)
        .list(['a', 'c']),
  ],
  'a master with a longer TTL than before is judged by the shorter until it has surely renewed': [
    () =>
      storyOfThree({ leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 })
        .turn('b', sidecarKilled)
        .begin('b', { leaseTtlMs: 30_000, reconcileIntervalMs: 10_000 })
        .turn('b', sidecarKilled)
        .wait(2_000)
        .list(['a', 'c']),
  ],

  'the lease of an address that two share ends, which the other made shorter': [
    () => {
      const short = { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 }
      const story = new FleetStory({ a: {}, b: { address: 'vip' }, c: { address: 'vip', ...short } })
      return story.turn('c', stopped).wait(1_000).list(['a']).list(['a', 'b']).wait(30_000)
    },
  ],
  'a kube-apiserver that came to make the Service at the same moment as another goes, and comes back': [
    () => deletedServiceStory(true).list(['a']).wait(5_000).list(['a', 'k']).wait(60_000),
  ],
  'a kube-apiserver goes for no reason': [
    () => deletedServiceStory(false).list(['a']).wait(500).list(['a', 'k']),
    'live-master-listed',
    'no-address-goes-without-cause',
  ],

  // no-address-comes-without-cause
  'an address comes that is nobody’s': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign']).list(['a', 'b', 'c']),
    'no-address-comes-without-cause',
  ],
  'somebody puts an address there': [
    () => storyOfThree().list(['a', 'b', 'c', 'foreign'], { byDamage: true }).list(['a', 'b', 'c']),
  ],
  'who writes next keeps what somebody put there, for a while': [
    () =>
      storyOfThree()
        .list(['a', 'b', 'c', 'foreign'], { byDamage: true })
        .list(['a', 'b', 'c', 'foreign'])
        .list(['a', 'b', 'c']),
    'no-address-comes-without-cause',
  ],
  'who began in an outage keeps what somebody put into both lists meanwhile': [
    () => strangerStory({ restarted: true, afterMs: 500 }),
  ],
  'who began in an outage puts it back long afterwards': [
    () => strangerStory({ restarted: true, afterMs: 20_000 }),
    'no-address-comes-without-cause',
  ],
  'who began before an outage keeps what somebody put into both lists meanwhile': [
    () => strangerStory({ restarted: false, afterMs: 500 }),
    'no-address-comes-without-cause',
  ],
  'a dead master comes back to the list': [
    () =>
      storyOfThree().turn('b', killed).wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c']),
    'no-address-comes-without-cause',
  ],
  'a master that was told to stop, and has not ended, comes back to the list': [
    () => {
      const story = storyOfThree().turn('b', { stopping: true, running: false, renewing: false })
      return story.wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c'])
    },
    // It does not also break no-address-comes-without-cause, because the master lives.
    'stopped-master-leaves',
  ],
  'a dead master comes back while its lease may last': [
    () =>
      storyOfThree().turn('b', killed).wait(15_200).list(['a', 'c']).wait(1_000).list(['a', 'b', 'c']).list(['a', 'c']),
  ],
  'a master that cannot renew its lease but runs comes back to the list, where nobody is ready': [
    () =>
      storyOfThree().turn('b', cut).wait(15_200).list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).list(['a', 'c']),
  ],
  'a dead master’s address comes back with another': [
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
  'one that died while all others slept is given its time': [
    () => {
      const story = storyOfThree()
      for (const name of ['a', 'c']) story.turn(name, cut)
      story.turn('b', killed).wait(30_000).list(['a', 'c'], { byDamage: true })
      for (const name of ['a', 'c']) story.turn(name, BACK)
      return story.wait(500).list(['a', 'b', 'c']).wait(15_000).list(['a', 'c']).wait(30_000)
    },
  ],
  'one that died while another was cut off is given its time, though that one’s server is not ready': [
    () => hangingStory().wait(500).list(['a', 'b']).wait(15_000).list(['a']),
  ],
  'one that died while another was cut off is given no more than its time': [
    () => hangingStory().wait(19_500).list(['a', 'b']).list(['a']),
    'no-address-comes-without-cause',
  ],
  'one that a kube-apiserver took out comes back by one of ours that could not see it die': [
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
  'a kube-apiserver puts a slice back as it was, which nothing guards': [
    () =>
      new FleetStory({ a: {}, b: {}, c: { kind: 'kube-apiserver' } })
        .turn('b', killed)
        .wait(15_200)
        .list(['a', 'c'])
        .wait(5_000)
        .list(['a', 'b', 'c'], { only: 'slice', by: 'c' })
        .list(['a', 'c'], { only: 'slice' }),
  ],
  'a kube-apiserver takes one that is ready out of the slice': [() => mixedStory('k'), 'no-address-goes-without-cause'],
  'beside a kube-apiserver, one of ours takes another that is ready out of the slice': [
    () => mixedStory('a'),
    'listed-master-stays',
    'live-master-listed',
    'no-address-goes-without-cause',
  ],
  'beside a kube-apiserver, one of ours puts a dead one into the slice': [
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
  'one leaves to others who have been unready for longer': [
    () =>
      storyOfThree().turn('a', unready).turn('c', unready).wait(500).turn('b', unready).wait(4_000).list(['a', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'one leaves to others who failed with it, before it looked around': [
    () => togetherStory(3_500),
    'unready-leaves-only-for-ready',
  ],
  'one leaves to others who failed with it, a second after it has said so': [
    () => togetherStory(4_200),
    'unready-leaves-only-for-ready',
  ],
  'one leaves to others who failed with it, after it looked around': [
    () => togetherStory(5_100),
    'unready-leaves-only-for-ready',
  ],
  'one leaves to another whose answers were late while its own server failed': [
    () => lateAnswersStory('rest').list(['a', 'c']).wait(2_000).turn('b', BACK).wait(2_000).list(['a', 'b', 'c']),
  ],
  'one leaves to another that did not answer while its own server failed': [
    () => lateAnswersStory('no').list(['a', 'c']).wait(2_000).turn('b', BACK).wait(2_000).list(['a', 'b', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'one leaves to another that did not answer for too short a time to notice it': [() => hangingProbeStory(4_400)],
  'one leaves to another that must have noticed that its own server did not answer': [
    () => hangingProbeStory(4_500),
    'unready-leaves-only-for-ready',
  ],
  'one goes when all that were not ready are ready again: it had left the list to them': [
    () => againStory().wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']).wait(30_000),
    'unready-leaves-only-for-ready',
  ],
  'one goes when all are ready again, of whom one had noticed later': [
    () => againStory(500).wait(2_500).list(['a', 'c']).list(['a', 'b', 'c']).wait(30_000),
  ],
  'a kube-apiserver that leaves takes another out of the slice that is not ready': [
    () => {
      const story = new FleetStory({ a: {}, k: { kind: 'kube-apiserver', withdrawsEvenIfLast: true } })
      story.turn('a', unready).wait(5_500).list(['k']).turn('k', stopped).list([], { by: 'k' }).list(['a'])
      return story.list([], { only: 'slice', by: 'k' }).list(['a'], { only: 'slice' })
    },
  ],
  'all fail together, one is ready again, and long after another that still fails goes': [
    () => {
      const story = storyOfThree().turn('a', unready).turn('b', unready).turn('c', unready).wait(10_000)
      return story.turn('a', BACK).wait(20_000).list(['a', 'c']).wait(2_000)
    },
  ],
  'all fail together with what they store in, one is ready again, and at once another that still fails goes': [
    () => storeOutageStory().wait(5_500).list(['a', 'c']),
    'unready-leaves-only-for-ready',
  ],
  'all fail together with what they store in, and one that still fails goes when the first that was ready again may confirm it':
    [() => storeOutageStory().wait(6_500).list(['a', 'c'])],
  'one leaves to others of whom one serves': [
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

tellStories(stories)
