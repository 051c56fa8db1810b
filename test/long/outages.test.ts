import { test } from 'node:test'
import { drawOutages, judgeOutages } from '../real/outage-report.ts'
import type { OutageKind } from '../real/outage-world.ts'

const timings = { ttlMs: 15_000, intervalMs: 10_000 }
const seed = 1

test('sixteen outages of one etcd cost no living master its address', async (t) => {
  const kinds: readonly OutageKind[] = [
    ...times<OutageKind>(4, 'etcd killed', 'etcd frozen', 'etcd killed'),
    ...times<OutageKind>(4, 'etcd full'),
  ]
  await judgeOutages(t, drawOutages(seed, kinds), { size: 1, timings, seed })
})

test('four outages of an etcd of three members cost no living master its address', async (t) => {
  const kinds: readonly OutageKind[] = ['etcd leader moved', 'etcd leader killed', 'etcd killed', 'etcd leader moved']
  await judgeOutages(t, drawOutages(seed, kinds), { size: 3, timings, seed })
})

test('three API servers stay listed when frozen for 16 s, return after a kill, and the list is never empty', async (t) => {
  const outages = [
    ...drawOutages(seed, times<OutageKind>(5, 'servers frozen'), 16_000),
    ...drawOutages(seed, times<OutageKind>(5, 'servers killed')),
  ]
  await judgeOutages(t, outages, { size: 1, timings, seed })
})

function times<T>(count: number, ...values: readonly T[]): readonly T[] {
  return Array.from({ length: count }, () => values).flat()
}
