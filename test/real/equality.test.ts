import { describeEquality } from './equality/comparison.ts'

// kube-apiserver is the real one, changed to reconcile every 200 ms. test/long/equality.test.ts checks that it makes
// the same when it reconciles every 10 s, and has the cases that this file leaves out.

/** The reconciler decides which addresses stay. Everything else is the same code for each. */
const hasAddresses = /address|own|subset|nothing|all is right|Endpoints only|slice only/
describeEquality('kube-apiserver and this program end in the same state', {
  moment: 'running',
  only: (start, mode) => mode === 'lease' || hasAddresses.test(start),
})
const atStart = ['too many addresses, its own among them', 'another master lives, and the port is another']
describeEquality('kube-apiserver and this program end in the same state at their start', {
  moment: 'at start',
  only: (start) => atStart.includes(start),
})
