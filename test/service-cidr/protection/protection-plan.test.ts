import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServiceCidr } from '../../../src/kube/resources.ts'
import { type ProtectionAction, planProtection } from '../../../src/service-cidr/protection/protection-plan.ts'
import { FINALIZER } from './cluster.ts'

const began = Date.UTC(2026, 0, 1)
const afterGrace = began + 10_000
const readyTrue = { type: 'Ready', status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' }
const terminating = {
  type: 'Ready',
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
}
type Condition = Omit<typeof readyTrue, 'reason'> & { readonly reason?: string }

function object(
  state: { readonly finalizers?: readonly string[]; readonly deleting?: boolean; readonly condition?: Condition } = {},
): ServiceCidr {
  const { finalizers = [], deleting = false, condition } = state
  const time = { lastTransitionTime: '2025-12-31T00:00:00Z' }
  return {
    metadata: { name: 'a', finalizers, ...(deleting && { deletionTimestamp: '2026-01-01T00:00:00Z' }) },
    spec: { cidrs: ['10.0.0.0/24'] },
    ...(condition !== undefined && { status: { conditions: [{ reason: '', ...condition, ...time }] } }),
  }
}

/** The actions as text: `add-finalizer FINALIZERS`, `set-condition STATUS`, `wait MS`. */
function planned(
  serviceCidr: ServiceCidr,
  { isBlocked = false, nowMs = afterGrace }: { readonly isBlocked?: boolean; readonly nowMs?: number } = {},
): readonly string[] {
  const text = (action: ProtectionAction): string => {
    switch (action.type) {
      case 'wait':
        return `wait ${action.forMs}`
      case 'set-condition':
        return `set-condition ${action.condition.status}`
      default:
        return `${action.type} ${action.finalizers.join()}`
    }
  }
  return planProtection({ serviceCidr, isBlocked, nowMs }).map(text)
}

test('a new ServiceCIDR gets the finalizer first, then the condition', () => {
  assert.deepEqual(planned(object()), [`add-finalizer ${FINALIZER}`, 'set-condition True'])
})

test('finalizers of others are preserved when ours is added and when it is removed', () => {
  assert.deepEqual(planned(object({ finalizers: ['x/y'], condition: readyTrue })), [`add-finalizer ${FINALIZER},x/y`])
  assert.deepEqual(planned(object({ finalizers: ['x/a', FINALIZER, 'x/b'], deleting: true })), [
    'remove-finalizer x/a,x/b',
  ])
})

test('a protected and Ready ServiceCIDR is in sync, with or without an empty reason', () => {
  const { reason: _empty, ...withoutReason } = readyTrue
  for (const condition of [readyTrue, withoutReason]) {
    assert.deepEqual(planned(object({ finalizers: [FINALIZER], condition })), [])
  }
})

test('any other Ready condition is overwritten, even upstream’s for the default ServiceCIDR', () => {
  const others: readonly Condition[] = [
    terminating,
    { ...readyTrue, status: 'Unknown' },
    { ...readyTrue, reason: 'Because' },
    { ...readyTrue, message: 'Kubernetes default Service CIDR is ready' },
  ]
  for (const condition of others) {
    assert.deepEqual(planned(object({ finalizers: [FINALIZER], condition })), ['set-condition True'])
  }
})

test('the conditions have upstream’s reasons and messages', () => {
  const conditionOf = (serviceCidr: ServiceCidr, isBlocked: boolean) =>
    planProtection({ serviceCidr, isBlocked, nowMs: afterGrace }).flatMap((action) =>
      action.type === 'set-condition' ? [{ type: 'Ready', ...action.condition }] : [],
    )
  assert.deepEqual(conditionOf(object(), false), [readyTrue])
  assert.deepEqual(conditionOf(object({ deleting: true }), true), [terminating])
})

test('a deleted and blocked ServiceCIDR becomes not Ready once, however long ago it was deleted', () => {
  const state = { finalizers: [FINALIZER], deleting: true }
  for (const nowMs of [began, afterGrace]) {
    assert.deepEqual(planned(object({ ...state, condition: readyTrue }), { isBlocked: true, nowMs }), [
      'set-condition False',
    ])
    assert.deepEqual(planned(object({ ...state, condition: terminating }), { isBlocked: true, nowMs }), [])
  }
})

test('an unblocked ServiceCIDR loses the finalizer ten seconds after its deletion', () => {
  const deleting = object({ finalizers: [FINALIZER], deleting: true, condition: readyTrue })
  assert.deepEqual(planned(deleting, { nowMs: began }), ['wait 10000'])
  assert.deepEqual(planned(deleting, { nowMs: afterGrace - 1 }), ['wait 1'])
  assert.deepEqual(planned(deleting, { nowMs: afterGrace }), ['remove-finalizer '])
})

test('no wait is longer than ten seconds, even if the clock is far behind, because it may be corrected meanwhile', () => {
  const deleting = object({ finalizers: [FINALIZER], deleting: true, condition: readyTrue })
  assert.deepEqual(planned(deleting, { nowMs: began - 3_600_000 }), ['wait 10000'])
})

test('a deleted ServiceCIDR gets no finalizer', () => {
  for (const nowMs of [began, afterGrace]) assert.deepEqual(planned(object({ deleting: true }), { nowMs }), [])
})

test('a ServiceCIDR whose deletionTimestamp is null is not deleted, even if IPAddresses need it', () => {
  const found = object({ finalizers: [FINALIZER], condition: readyTrue })
  const withNull = { ...found, metadata: { ...found.metadata, deletionTimestamp: null } } as unknown as ServiceCidr
  assert.deepEqual(planned(withNull, { isBlocked: true }), [])
})
