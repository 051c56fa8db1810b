// Upstream runs its repair three times in a row and then finds the leaked item freed. Our repair also frees it in the
// third pass, but not before two minutes have passed: the passes are three minutes apart, as in kube-apiserver.
// Upstream's fake client accepts Services that no server accepts (a port without a number), so the cases with Services
// run on the plan. A case whose writes are refused runs whole passes. Upstream gives such a pass up; our repair
// continues until it succeeds.
import assert from 'node:assert/strict'
import { EtcdError } from '../../src/etcd/kv.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import type { RangeClaims } from '../../src/repair/bitmap/claims.ts'
import type { LeakLedger } from '../../src/repair/bitmap/plan.ts'
import { readRange } from '../../src/repair/bitmap/plan.ts'
import type { FindingType } from '../../src/repair/reporter.ts'
import { wholePass } from '../repair/bitmap/whole-pass.ts'
import { RangeWorld } from '../repair/bitmap/world.ts'
import type { RangeRepairCase } from './range-repair-tables.ts'

const intervalMs = 180_000

export async function runCase(claims: RangeClaims, one: RangeRepairCase): Promise<void> {
  if (one.given.writeError === undefined) runPlans(claims, one)
  else await runRefused(claims, one)
}

function runPlans(claims: RangeClaims, { given, call, expect }: RangeRepairCase): void {
  let taken = given.ranges.map(({ allocated }, range) => {
    const bitmap = new Bitmap(claims.ranges[range]?.size ?? 0)
    for (const item of allocated) bitmap.add(claims.ranges[range]?.offsetOf(item) ?? -1)
    return bitmap
  })
  let ledgers: readonly LeakLedger[] = []
  const errors: Partial<Record<FindingType, number>> = {}
  for (let pass = 0; pass < call.passes; pass++) {
    const readings = claims.ranges.map((claimed, range) => {
      const data = (taken[range] as Bitmap).toBytes()
      const stored = {
        type: 'range',
        range: given.ranges[range]?.range ?? '',
        data,
        revision: '1',
        version: 1,
      } as const
      return readRange(claimed, stored, { claims, where: 'here', adopt: false })
    })
    const nowMs = pass * intervalMs
    const plan = wholePass({ claims, services: given.objects, readings, ledgers, nowMs })
    const count = (type: FindingType, more: number): void => {
      if (more > 0) errors[type] = (errors[type] ?? 0) + more
    }
    taken = plan.ranges.map((range) => {
      assert.ok(range.type === 'range')
      count('repair', range.missing.count)
      count('leak', range.leaked.count)
      return range.taken
    })
    ledgers = plan.ranges.map(({ ledger }) => ledger)
    for (const { type } of plan.findings) count(type, 1)
    const items = taken.map((bitmap, range) => [...bitmap].map((offset) => claims.ranges[range]?.textAt(offset)))
    assert.deepEqual(
      items,
      expect.ranges.map(({ allocated }) => allocated[pass]),
    )
  }
  assert.deepEqual(errors, expect.errors)
  expect.ranges.forEach(({ range, free }, index) => {
    assert.equal(claims.ranges[index]?.text, range)
    assert.equal((claims.ranges[index]?.size ?? 0) - (taken[index]?.count ?? 0), free)
  })
}

async function runRefused(claims: RangeClaims, { given, expect }: RangeRepairCase): Promise<void> {
  const world = await RangeWorld.start()
  const master = world.master('a', { claims, intervalMs })
  master.registry.beforeWrite = () => {
    throw new EtcdError('Refused', given.writeError ?? '')
  }
  // Upstream always writes. Our repair writes nothing if everything is in sync, so here nothing is stored yet.
  master.run()
  await world.time.advance(0)
  assert.equal(master.repair.fault(), given.writeError)
  const metric = `apiserver_${claims.kind === 'node-port' ? 'nodeport' : 'clusterip'}_repair_reconcile_errors_total`
  assert.deepEqual(await master.metric(metric), { '': expect.reconcileErrors })
  await master.stop()
}
