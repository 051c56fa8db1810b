import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failedAsKnown } from '../../../src/drill/report/failures.ts'
import { masterCount, removed, variant } from './reports.ts'

test('the failures of a reconciler count as known unless it violated an invariant that every reconciler must keep', () => {
  const broken = (...invariants: readonly string[]) => ({
    ...masterCount,
    held: false,
    runs: [
      {
        seed: 1,
        events: removed,
        violations: invariants.map((invariant) => ({ atMs: 1, invariant, detail: 'd' }) as never),
      },
    ],
  })
  assert.equal(failedAsKnown([broken('dead-master-removed')]), true)
  assert.equal(failedAsKnown([broken('dead-master-removed', 'service-stays')]), false)
  assert.equal(failedAsKnown([broken('dead-master-removed'), broken('drill-ends')]), false)
  assert.equal(failedAsKnown([variant('lease', { held: false })]), false)
  assert.equal(failedAsKnown([variant('lease')]), true)
})
