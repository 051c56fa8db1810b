import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { drill, nothingIsLeft } from '../real/drill-world.ts'

const names = [
  'crash',
  'graceful',
  'freeze',
  'partition',
  'rolling-restart',
  'shared-vip',
  'sidecar-restart',
  'datastore-outage',
] as const

describe('built-in drills on real processes', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
  })

  for (const name of names) {
    test(`the drill ${name} violates no invariant`, async (t) => {
      const { code, report, output } = await drill(owner, cluster, name)
      const [variant] = report?.variants ?? []
      assert.ok(variant, output)
      for (const { violations } of variant.runs) assert.deepEqual(violations, [])
      assert.equal(code, 0, output)
      const { figures } = variant
      const took = figures.timeToRemove.samples.map(({ master, cause, tookMs }) => `${cause} ${master} ${tookMs} ms`)
      t.diagnostic(`removed: ${took.join(', ')}`)
      t.diagnostic(JSON.stringify({ fewestListed: figures.fewestListed, ...figures.connections, ...figures.writes }))
      if (name === 'crash') {
        const [removal] = figures.timeToRemove.samples
        assert.ok((removal?.tookMs ?? Number.NaN) <= 16_000, 'with the end of its lease, and a second')
      }
      if (name === 'graceful' || name === 'rolling-restart') {
        assert.equal(figures.connections.notServedAfterStop, 0)
        assert.equal(figures.fewestListed, 4)
      }
      if (name === 'shared-vip') assert.equal(figures.fewestListed, 2)
      if (name === 'datastore-outage') assert.equal(figures.fewestListed, 5)
    })
  }

  test('a master whose own etcd is dead leaves while others serve, and comes back', async () => {
    const { code, report, output } = await drill(
      owner,
      cluster,
      `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
description: For a test.
name: own-etcd
fleet:
  masters: 3
  leaseTtl: 3s
  reconcileInterval: 1s
duration: 40s
steps:
  - { at: 7s, action: own-etcd-dead, masters: [master-2], how: fails, for: 15s }
`,
    )
    const [variant] = report?.variants ?? []
    assert.ok(variant, output)
    for (const { violations } of variant.runs) assert.deepEqual(violations, [])
    assert.equal(code, 0, output)
    assert.equal(variant.figures.fewestListed, 2)
    await nothingIsLeft(cluster.server)
  })

  test("with kube-apiserver's own reconciler a dead master is removed between 5 s and 27 s after its death", async (t) => {
    const { code, report, output } = await drill(owner, cluster, 'crash', ['--reconciler=kube-apiserver'])
    const [variant] = report?.variants ?? []
    assert.ok(variant, output)
    assert.equal(variant.name, 'kube-apiserver')
    assert.ok(code === 0 || code === 1, output)
    const [removal] = variant.figures.timeToRemove.samples
    t.diagnostic(`removed after ${removal?.tookMs} ms`)
    assert.ok(removal?.tookMs !== undefined && removal.tookMs > 5_000 && removal.tookMs < 27_000)
  })
})
