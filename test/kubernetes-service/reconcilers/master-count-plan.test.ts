import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Endpoints } from '../../../src/kube/resources.ts'
import { endpointPorts, SKIP_MIRROR_LABEL } from '../../../src/kubernetes-service/identity.ts'
import {
  isDisplaced,
  type MasterCountObservation,
  planMasterCount,
  planRemoval,
} from '../../../src/kubernetes-service/reconcilers/master-count.ts'

const ports = endpointPorts(6443)

function listing(...addresses: readonly string[]): Endpoints {
  return {
    metadata: { name: 'kubernetes', namespace: 'default', labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [{ addresses: addresses.map((ip) => ({ ip })), ports }],
  }
}

function listedBy(more: Partial<MasterCountObservation>): readonly string[] | 'as found' {
  const action = planMasterCount({
    current: undefined,
    own: '192.0.2.2',
    count: 3,
    allowed: 'claim',
    ports,
    reconcilePorts: true,
    ...more,
  })
  if (action.type === 'none') return 'as found'
  assert.ok(action.type === 'create' || action.type === 'update')
  return (action.object.subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
}

test('a place that others have taken is taken back only if the master may claim it', () => {
  const full = listing('192.0.2.1', '192.0.2.3', '192.0.2.4')
  assert.equal(isDisplaced(full, '192.0.2.2', 3), true)
  assert.equal(listedBy({ current: full, allowed: 'keep' }), 'as found')
  assert.equal(listedBy({ current: full, allowed: 'correct' }), 'as found')
  assert.deepEqual(listedBy({ current: full, allowed: 'claim' }), ['192.0.2.1', '192.0.2.2', '192.0.2.4'])
})

test('a master that may correct adds itself to a free place and drops excess addresses; with keep it does neither', () => {
  const withRoom = listing('192.0.2.3')
  const tooMany = listing('192.0.2.1', '192.0.2.2', '192.0.2.3', '203.0.113.9')
  assert.deepEqual(listedBy({ current: withRoom, allowed: 'correct' }), ['192.0.2.2', '192.0.2.3'])
  assert.deepEqual(listedBy({ current: tooMany, allowed: 'correct' }), ['192.0.2.1', '192.0.2.2', '203.0.113.9'])
  assert.equal(listedBy({ current: withRoom, allowed: 'keep' }), 'as found')
  assert.equal(listedBy({ current: tooMany, allowed: 'keep' }), 'as found')
})

test('even with keep a master adds itself to an empty list and corrects all other damage', () => {
  const foreign = [{ ip: '203.0.113.9' }]
  const full = { addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.3' }, { ip: '192.0.2.4' }], ports }
  assert.deepEqual(listedBy({ current: listing(), allowed: 'keep' }), ['192.0.2.2'])
  assert.deepEqual(listedBy({ current: undefined, allowed: 'keep' }), ['192.0.2.2'])
  assert.deepEqual(
    listedBy({ current: { ...listing(), subsets: [full, { addresses: foreign, ports }] }, allowed: 'keep' }),
    ['192.0.2.2'],
  )
  const damaged = { ...listing(), subsets: [{ ...full, notReadyAddresses: foreign }] }
  const action = planMasterCount({
    current: damaged,
    own: '192.0.2.2',
    count: 3,
    allowed: 'keep',
    ports,
    reconcilePorts: true,
  })
  assert.deepEqual(action.type === 'update' && action.object.subsets, [full])
})

test('a removal takes a master out wherever it is listed, but the last master only while it is stopping', () => {
  const own = '192.0.2.2'
  const plan = (current: Endpoints | undefined, mayBecomeEmpty: boolean) =>
    planRemoval({ current, own, ports, mayBecomeEmpty })
  const rest = plan(listing('192.0.2.3', own, '192.0.2.1'), false)
  assert.deepEqual(rest.type === 'update' && rest.object.subsets, listing('192.0.2.1', '192.0.2.3').subsets)
  assert.deepEqual(plan(listing('192.0.2.1'), false), { type: 'none' })
  assert.deepEqual(plan(undefined, true), { type: 'none' })
  assert.deepEqual(plan(listing(own), false), { type: 'refuse' })
  const last = plan(listing(own), true)
  assert.deepEqual(last.type === 'update' && last.object.subsets, [])

  const twice = {
    ...listing(),
    subsets: [...(listing('192.0.2.1').subsets ?? []), ...(listing(own, '192.0.2.4').subsets ?? [])],
  }
  const merged = plan(twice, false)
  assert.deepEqual(merged.type === 'update' && merged.object.subsets, listing('192.0.2.1', '192.0.2.4').subsets)
})

test('at an interval the result equals that of upstream: a master adds itself and drops the next ones after it in a ring', () => {
  const text = fc.integer({ min: 1, max: 12 }).map((n) => `192.0.2.${n}`)
  fc.assert(
    fc.property(fc.uniqueArray(text, { minLength: 1 }), text, fc.integer({ min: 1, max: 8 }), (found, own, count) => {
      const result = listedBy({ current: listing(...found), own, count })
      if (found.includes(own) && found.length <= count) return assert.equal(result, 'as found')
      const ring = [...new Set([...found, own])].sort()
      while (ring.length > count) ring.splice((ring.indexOf(own) + 1) % ring.length, 1)
      assert.deepEqual(result, ring)
    }),
    { numRuns: 2_000 },
  )
})
