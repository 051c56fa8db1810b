import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseControllers } from '../../src/bootstrap/controller-selection.ts'
import { type DutyDecision, decideDuty } from '../../src/bootstrap/duties.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'

const hook = 'poststarthook/start-system-namespaces-controller'
const bare: ReadinessAnswer = { answered: true, ready: true, checks: [{ name: 'ping', ok: true }] }
const stock: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: hook, ok: false }] }

const table: readonly [controllers: string[], answer: ReadinessAnswer, decision: DutyDecision][] = [
  [['auto'], bare, { type: 'on' }],
  [['auto'], stock, { type: 'left-to-server', hook }],
  [['auto', 'system-namespaces'], stock, { type: 'on-beside-server', hook }],
  [['system-namespaces'], stock, { type: 'on-beside-server', hook }],
  [['system-namespaces'], bare, { type: 'on' }],
  [['auto', '-system-namespaces'], bare, { type: 'off' }],
  [['kubernetes-service'], bare, { type: 'off' }],
]

for (const [controllers, answer, decision] of table) {
  const server = answer === stock ? 'a server that does it itself' : 'a server that does not'
  test(`--controllers=${controllers} beside ${server}: system-namespaces is ${decision.type}`, () => {
    assert.deepEqual(decideDuty('system-namespaces', parseControllers(controllers), answer), decision)
  })
}

test('default/kubernetes is kept even where the server lists its hook: its reconciler may be off', () => {
  const answer: ReadinessAnswer = { ...bare, checks: [{ name: 'poststarthook/bootstrap-controller', ok: true }] }
  assert.deepEqual(decideDuty('kubernetes-service', parseControllers(['auto']), answer), { type: 'on' })
})
