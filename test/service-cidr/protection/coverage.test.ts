import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServiceCidr } from '../../../src/kube/resources.ts'
import { coverageOf } from '../../../src/service-cidr/protection/coverage.ts'
import { FINALIZER } from './cluster.ts'

interface Like {
  /** The minute in which the deletion began. */
  readonly deletedAt?: string
  readonly finalizers?: readonly string[]
}

function named(name: string, cidrs: readonly string[], like: Like = {}): ServiceCidr {
  const { deletedAt, finalizers = [FINALIZER] } = like
  const deletionTimestamp = deletedAt === undefined ? {} : { deletionTimestamp: `2026-01-01T00:${deletedAt}:00Z` }
  return { metadata: { name, finalizers, ...deletionTimestamp }, spec: { cidrs } }
}

/** Whether `a` is not needed beside `b`, which has the same range. */
function isCovered(a: Like, b: Like, names: readonly [string, string] = ['a', 'b']): boolean {
  const [one, other] = [named(names[0], ['10.0.0.0/24'], a), named(names[1], ['10.0.0.0/24'], b)]
  return coverageOf(one, [one, other]).needed.length === 0
}

test('each range must be included in one other ServiceCIDR, but not all in the same one', () => {
  const dual = named('dual', ['10.0.0.0/24', 'fd00::/112'])
  const [four, six] = [named('four', ['10.0.0.0/16']), named('six', ['fd00::/64'])]
  assert.equal(coverageOf(dual, [dual, four, six]).needed.length, 0)
  assert.equal(coverageOf(dual, [dual, four]).needed.length, 2)
  // No Service gets 10.0.0.127 or 10.0.0.128 from the halves.
  const halves = [named('low', ['10.0.0.0/25']), named('high', ['10.0.0.128/25'])]
  const whole = named('whole', ['10.0.0.0/24'])
  assert.equal(coverageOf(whole, [whole, ...halves]).needed.length, 1)
})

test('a ServiceCIDR that is not deleted covers a deleted one', () => {
  assert.equal(isCovered({ deletedAt: '01' }, {}), true)
  // As upstream does: the finalizer will be added.
  assert.equal(isCovered({ deletedAt: '01' }, { finalizers: [] }), true)
})

test('a ServiceCIDR whose deletionTimestamp is null is not deleted', () => {
  const deleted = named('a', ['10.0.0.0/24'], { deletedAt: '01' })
  const metadata = { name: 'b', finalizers: [], deletionTimestamp: null }
  const stays = { ...named('b', ['10.0.0.0/24']), metadata } as unknown as ServiceCidr
  assert.deepEqual(coverageOf(deleted, [deleted, stays]).needed, [])
})

test('of two deleted ServiceCIDRs the later covers the earlier, never each the other', () => {
  const [earlier, later] = [{ deletedAt: '01' }, { deletedAt: '02' }]
  assert.equal(isCovered(earlier, later), true)
  assert.equal(isCovered(later, earlier), false)
  assert.equal(isCovered(earlier, earlier, ['a', 'b']), true)
  assert.equal(isCovered(earlier, earlier, ['b', 'a']), false)
})

test('a deleted ServiceCIDR without the finalizer covers nothing, because it may disappear at any time', () => {
  assert.equal(isCovered({ deletedAt: '01' }, { deletedAt: '02', finalizers: ['x/y'] }), false)
})

test('malformed ranges are ignored, and host bits are cut off', () => {
  const odd = named('odd', ['10.0.0.0/33', 'nothing', '10.0.0.77/24'])
  assert.deepEqual(
    coverageOf(odd, [odd]).needed.map(({ text }) => text),
    ['10.0.0.0/24'],
  )
  assert.equal(coverageOf(named('none', ['nothing']), []).needed.length, 0)
})
