import { test } from 'node:test'
import { judgeOutages } from './outage-report.ts'

// Many more, with the default TTL: test/long/outages.test.ts.
test('three kube-apiservers lose no master while their etcd is killed, then frozen, for more than two TTLs each', async (t) => {
  const timings = { ttlMs: 6_000, intervalMs: 4_000 }
  await judgeOutages(
    t,
    [
      { kind: 'etcd killed', lengthMs: 14_000 },
      { kind: 'etcd frozen', lengthMs: 14_000 },
    ],
    { size: 1, timings, seed: 1 },
  )
})
