import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServiceCidr } from '../../src/kube/resources.ts'
import { failureReport, planServiceCidr, readyStatus } from '../../src/service-cidr/service-cidr-plan.ts'

const [FOUR, SIX, OTHER] = ['10.96.0.0/16', 'fd00::/108', '10.97.0.0/16']
const deletionTimestamp = '2026-01-01T00:00:00Z'

function stored(cidrs: readonly string[], ready?: object, metadata: object = {}): ServiceCidr {
  const conditions =
    ready === undefined
      ? undefined
      : [
          { type: 'Other', status: 'False' },
          { type: 'Ready', ...ready },
        ]
  return {
    metadata: { name: 'kubernetes', resourceVersion: '7', ...metadata },
    spec: { cidrs },
    status: { conditions },
  } as unknown as ServiceCidr
}

const typeOf = (...args: Parameters<typeof planServiceCidr>): string => planServiceCidr(...args).type

test('a missing default ServiceCIDR is created with its ranges', () => {
  assert.deepEqual(planServiceCidr(undefined, [FOUR, SIX]), {
    type: 'create',
    serviceCidr: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes' },
      spec: { cidrs: [FOUR, SIX] },
    },
  })
})

test('one range is upgraded to two only if it is the first of them; the rest of the object is preserved', () => {
  const found = {
    ...stored([FOUR], { status: 'True' }),
    spec: { cidrs: [FOUR], other: true },
  } as unknown as ServiceCidr
  const plan = planServiceCidr(found, [FOUR, SIX])
  assert.deepEqual(plan, { type: 'upgrade', serviceCidr: { ...found, spec: { cidrs: [FOUR, SIX], other: true } } })
  assert.equal(typeOf(stored([FOUR], undefined, { deletionTimestamp }), [FOUR, SIX]), 'upgrade', 'as upstream')
  for (const cidrs of [[SIX], [OTHER], [], [FOUR, OTHER]])
    assert.equal(typeOf(stored(cidrs), [FOUR, SIX]), 'report', cidrs.join())
})

test('other, additional, missing or reordered ranges are reported, the found ones first', () => {
  for (const [found, wanted] of [
    [[OTHER], [FOUR]],
    [[FOUR, SIX], [FOUR]],
    [
      [SIX, FOUR],
      [FOUR, SIX],
    ],
    [
      [FOUR, OTHER],
      [FOUR, SIX],
    ],
  ] as const) {
    assert.deepEqual(planServiceCidr(stored(found, { status: 'True' }), wanted), {
      type: 'report',
      report: {
        reason: 'KubernetesDefaultServiceCIDRInconsistent',
        note: `The default ServiceCIDR [${found.join(' ')}] does not match the controller flag configurations [${wanted.join(' ')}]`,
      },
    })
  }
  assert.equal(typeOf({ metadata: { name: 'kubernetes' } } as ServiceCidr, [FOUR]), 'report')
})

test('a default ServiceCIDR that is being deleted is reported and not changed, whatever its ranges and condition', () => {
  for (const [cidrs, ready] of [
    [[OTHER], undefined],
    [[FOUR], { status: 'False', message: 'Terminating' }],
    [[FOUR], undefined],
  ] as const)
    assert.equal(typeOf(stored(cidrs, ready, { deletionTimestamp }), [FOUR]), 'report')
})

test('Ready=True stays, False is reported, and anything else is set to True', () => {
  const plan = (ready: object | undefined) => planServiceCidr(stored([FOUR], ready), [FOUR])
  assert.deepEqual(plan({ status: 'True' }), { type: 'none' })
  assert.deepEqual(plan(undefined), { type: 'set-ready' })
  assert.deepEqual(plan({ status: 'Unknown' }), { type: 'set-ready' })
  for (const [reason, expected] of [
    ['Mine', 'Mine'],
    ['', 'KubernetesDefaultServiceCIDRError'],
    [undefined, 'KubernetesDefaultServiceCIDRError'],
  ]) {
    const report = { reason: expected, note: 'Configuration matches, but it is not' }
    assert.deepEqual(plan({ status: 'False', reason, message: 'it is not' }), { type: 'report', report })
  }
})

test('the applied status has only the Ready condition, with the given time', () => {
  const message = 'Kubernetes default Service CIDR is ready'
  assert.deepEqual(readyStatus('2026-01-01T00:00:00Z'), {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    status: { conditions: [{ type: 'Ready', status: 'True', message, lastTransitionTime: '2026-01-01T00:00:00Z' }] },
  })
})

test('a refused write is reported with upstream’s reason and message', () => {
  const notes = (['create', 'upgrade', 'set-ready'] as const).map((action) =>
    Object.values(failureReport(action, [FOUR, SIX], 'no')),
  )
  const reason = 'KubernetesDefaultServiceCIDRError'
  assert.deepEqual(notes, [
    [reason, 'The default ServiceCIDR can not be created'],
    [reason, `The default ServiceCIDR can not be upgraded from ${FOUR} to dual stack [${FOUR} ${SIX}] : no`],
    [reason, 'The default ServiceCIDR Status can not be set to Ready=True'],
  ])
})

test('a default ServiceCIDR whose deletionTimestamp is null is not being deleted', () => {
  assert.equal(typeOf(stored([FOUR], undefined, { deletionTimestamp: null }), [FOUR]), 'set-ready')
})
