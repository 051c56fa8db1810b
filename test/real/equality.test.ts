import { describeEquality } from './equality/comparison.ts'

// kube-apiserver is the real one, made to look every 200 ms. That it makes the same when it looks every 10 s, and all starts at its
// start, are in test/long/equality.test.ts.
describeEquality('kube-apiserver and this program make the same of what they find', { moment: 'running' })
describeEquality('kube-apiserver and this program make the same of what they find at their start', {
  moment: 'at start',
  only: ['too many, the own among them', 'another master lives, and the port is another'],
})
