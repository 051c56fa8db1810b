import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { whenReady } from '../peers/program-health.ts'
import { untilPasses } from '../peers/until.ts'
import { isAlive } from '../support/is-alive.ts'
import { childrenOf, type DrillOutcome, drill, kinds, nothingIsLeft, startDrill } from './drill-world.ts'

// test/long/drill-live.test.ts runs all eight built-in drills with the default TTL, and one with a dead etcd of one
// master.

const namespace = '/api/v1/namespaces/default'
/** A list that somebody wrote by hand: it is not the drill's. */
const found = {
  apiVersion: 'v1',
  kind: 'Endpoints',
  metadata: { name: 'kubernetes', labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true', mine: 'yes' } },
  subsets: [{ addresses: [{ ip: '10.77.0.1' }], ports: [{ name: 'https', port: 7443, protocol: 'TCP' }] }],
}
const head = `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
description: For a test.
`
/** At SIGUSR2, throws an error that nothing catches. */
const throwing = `--import=data:text/javascript,process.on('SIGUSR2',()=>{throw new Error('unforeseen')})`
const quick = `leaseTtl: 3s
  reconcileInterval: 1s`

describe('live drills', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
  })

  test('masters that are killed, terminated, frozen, partitioned or restarted leave and rejoin without a violation', async (t) => {
    const outcome = await drill(
      owner,
      cluster,
      `${head}name: faults
fleet:
  masters: 5
  ${quick}
duration: 34s
steps:
  - { at: 2s, action: kill, masters: [master-2], for: 6s }
  - { at: 4s, action: terminate, masters: [master-3], for: 4s }
  - { at: 11s, action: freeze, masters: [master-4], for: 6s }
  - { at: 13s, action: partition, masters: [master-5], from: store, for: 6s }
  - { at: 22s, action: restart, masters: [master-1], part: sidecar }
  # Beside other tests a started life needs some seconds to be listed. The earlier one must not be stopped sooner.
  - { at: 24s, action: restart, masters: [master-2], overlap: 6s }
`,
    )
    const { figures, runs } = held(t, outcome)
    const overlapping = runs[0]?.events?.filter((event) => event.type === 'state' && event.master === 'master-2')
    const states = overlapping?.filter(({ atMs }) => atMs > 20_000) ?? []
    assert.deepEqual(states, [], 'an overlap of two lives does not impair the master')
    const removals = new Map(figures.timeToRemove.samples.map(({ master, tookMs }) => [master, tookMs ?? Number.NaN]))
    assert.deepEqual([...removals.keys()].sort(), ['master-1', 'master-2', 'master-3', 'master-4', 'master-5'])
    t.diagnostic(`removed after ${JSON.stringify(Object.fromEntries(removals))} ms`)
    assert.equal(figures.flaps, 0)
    assert.equal(figures.deadListedAtEnd, 0)
    assert.ok(figures.connections.served > 1_000)
    assert.ok(figures.connections.refused > 0 && figures.connections.blackHoled > 0)
    assert.ok(figures.writes.total > 0)
    await nothingIsLeft(cluster.server)
  })

  test('a master stays listed while requests are refused, cut, delayed or unanswered, and after expired credentials', async (t) => {
    const outcome = await drill(
      owner,
      cluster,
      `${head}name: requests
fleet:
  masters: 3
  ${quick}
duration: 58s
steps:
  - { at: 7s, action: requests-fail, masters: [master-2], how: status, status: 403, only: api, for: 4s }
  - { at: 7s, action: requests-fail, masters: [master-3], how: status, status: 429, retryAfter: 6s, only: api, for: 4s }
  - { at: 8s, action: requests-fail, masters: [master-1], how: hang, only: api, requests: 2, for: 4s }
  - { at: 13s, action: requests-fail, masters: [master-2], how: cut-watches, every: 500ms, for: 3s }
  - { at: 13s, action: requests-fail, masters: [master-3], how: delay, by: 300ms, for: 3s }
  - { at: 18s, action: requests-fail, masters: [master-2], how: expired, for: 8s }
  # Nobody else is left to see to it.
  - { at: 46s, action: kill, masters: [master-1, master-3], part: both }
`,
    )
    const { figures, runs } = held(t, outcome)
    assert.equal(figures.flaps, 0)
    const lists = runs[0]?.events?.filter((event) => event.type === 'listed' && event.object === 'endpoints') ?? []
    const whileAllLive = lists.filter(({ atMs }) => atMs > 0 && atMs < 46_000)
    assert.ok(lists.length > whileAllLive.length)
    for (const event of whileAllLive)
      assert.ok(event.type === 'listed' && event.addresses?.length === 3, 'nobody leaves')
    const removed = figures.timeToRemove.samples.map(({ master }) => master)
    assert.deepEqual(removed.sort(), ['master-1', 'master-3'])
    await nothingIsLeft(cluster.server)
  })

  test('a shared address stays listed while one of its masters lives, and no master leaves in an outage of the store', async (t) => {
    const outcome = await drill(
      owner,
      cluster,
      `${head}name: together
fleet:
  masters:
    - addresses: [192.0.2.100]
    - addresses: [192.0.2.100]
    - {}
  virtualAddresses: [192.0.2.100]
  ${quick}
duration: 34s
steps:
  - { at: 2s, action: kill, masters: [master-1], for: 6s }
  - { at: 12s, action: datastore-outage, for: 8s }
`,
    )
    const { figures, runs } = held(t, outcome)
    const written = (runs[0]?.events ?? []).filter((event) => event.type === 'listed' && event.atMs >= 0)
    assert.deepEqual(written, [], `the list changed:\n${outcome.output}`)
    assert.equal(figures.fewestListed, 2)
  })

  test('with Leases in the API a dead master is removed, and the drill leaves no Lease behind', async (t) => {
    const outcome = await drill(
      owner,
      cluster,
      `${head}name: objects
fleet:
  masters: 3
  leaseStore: kubernetes
  ${quick}
duration: 20s
steps:
  - { at: 2s, action: kill, masters: [master-2] }
`,
    )
    const { figures } = held(t, outcome)
    assert.equal(figures.timeToRemove.count, 1)
    assert.equal(figures.timeToDetect.count, 1)
    for (const name of ['master-1', 'master-2', 'master-3']) {
      const log = outcome.logs[`lease-kubernetes-seed-1-${name}-1.log`] ?? ''
      assert.match(log, /^\{.*"level":/, `the log of ${name}, among ${Object.keys(outcome.logs)}`)
    }
    const leases = await cluster.server.api.get<{ readonly items: readonly { readonly metadata: { name: string } }[] }>(
      '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases',
    )
    assert.deepEqual(
      leases.items.filter(({ metadata: { name } }) => name.startsWith('apiserver-bootstrap')),
      [],
    )
  })

  for (const code of [0, 7]) {
    test(`a kube-apiserver that exits at once with code ${code} ends the drill, which names it and restores the objects`, async (t) => {
      const { server } = cluster
      await listByHand(t)
      const before = await server.api.get<typeof found>(kinds[1] as string)
      const program = join(temporaryDirectory(owner, 'program'), 'kube-apiserver')
      writeFileSync(program, `#!/bin/sh\nexec >&2\necho starting\necho unknown flag\nexit ${code}\n`, { mode: 0o700 })
      const scenario = `${head}name: ends\nfleet: { masters: 2 }\nduration: 5s\nsteps: []\n`
      const outcome = await drill(owner, cluster, scenario, [
        '--reconciler=kube-apiserver',
        `--kube-apiserver=${program}`,
      ])
      const why = `the fleet did not come up: master-1: ${program} ended with code ${code}: unknown flag`
      assert.deepEqual([outcome.code, outcome.output.split('\n').at(-1)], [1, `apiserver-bootstrap: ${why}`])
      assert.equal(outcome.logs['kube-apiserver-seed-1-master-1-1.log'], 'starting\nunknown flag\n')
      const { subsets, metadata } = await server.api.get<typeof found>(kinds[1] as string)
      assert.deepEqual([subsets, metadata.labels], [before.subsets, before.metadata.labels])
      assert.equal((await server.api.send('GET', kinds[0] as string)).status, 404)
    })
  }

  const restored = /interrupted.*objects are restored/
  const endings = [
    ['a drill that receives SIGINT', 'SIGINT', restored],
    ['a drill that receives SIGTERM', 'SIGTERM', restored],
    ['a drill whose terminal is closed', 'SIGHUP', restored],
    ['a drill with an uncaught error', 'SIGUSR2', /Error: unforeseen\n.*error, and the objects are restored$/],
  ] as const
  for (const [what, signal, ending] of endings) {
    test(`${what} restores the objects that it found`, async (t) => {
      const { server } = cluster
      await listByHand(t)
      const program = await started(cluster, [throwing])
      const children = childrenOf(program)
      assert.ok(children.length >= 2, 'sidecars run')
      program.process.signal(signal)
      const { code } = await program.process.exited
      assert.equal(code, 1, program.process.tail())
      assert.match(program.process.tail(5), ending)
      await whenEnded(children)
      assert.equal((await server.api.send('GET', kinds[0] as string)).status, 404)
      const endpoints = await server.api.get<typeof found>(kinds[1] as string)
      assert.deepEqual(endpoints.subsets, found.subsets)
      assert.deepEqual(endpoints.metadata.labels, found.metadata.labels)
      assert.equal((await server.api.send('GET', kinds[2] as string)).status, 404)
      assert.deepEqual(await leasesIn(cluster), [])
    })
  }

  test('no process outlives a drill that is killed', async () => {
    const program = await started(cluster)
    const children = childrenOf(program)
    assert.ok(children.length >= 2, 'sidecars run')
    program.process.signal('SIGKILL')
    await program.process.exited
    await whenEnded(children)
    for (const path of kinds) await cluster.server.api.send('DELETE', path)
  })

  test('a drill changes nothing without --yes, nor where a master already maintains the list', async () => {
    const refused = await startDrill(owner, cluster, 'crash', [])
    assert.equal((await refused.process.exited).code, 2)
    assert.equal(refused.process.lines.length, 1)
    assert.match(refused.process.tail(), /--yes/)

    const { etcd, server } = cluster
    const flags = [`--etcd-servers=${etcd.url}`, '--lease-ttl=3s', '--reconcile-interval=1s']
    const master = await startMaster(owner, server, { address: '203.0.113.5', flags })
    await whenReady(master, 60_000)
    // The leases of the killed drill must expire first.
    const before = await untilPasses(
      'the list to be its own',
      async () => {
        const endpoints = await server.api.get<typeof found>(kinds[1] as string)
        assert.deepEqual(
          endpoints.subsets.flatMap(({ addresses }) => addresses.map(({ ip }) => ip)),
          ['203.0.113.5'],
        )
        assert.equal(((await leasesIn(cluster)) as readonly unknown[]).length, 1)
        return endpoints
      },
      { withinMs: 30_000 },
    )
    const { code, output } = await drill(owner, cluster, 'crash')
    assert.equal(code, 1)
    assert.match(output, /203\.0\.113\.5/)
    assert.match(output, /disturb/)
    await sleep(500)
    assert.deepEqual((await server.api.get<typeof found>(kinds[1] as string)).metadata, before.metadata)
    await master.stop()
    for (const path of kinds) await server.api.send('DELETE', path)
  })

  /** Writes a list for a drill to find, and deletes it at the end of the test. */
  async function listByHand(t: TestContext): Promise<void> {
    const { api } = cluster.server
    // A bare server has no namespace `default` before somebody creates it.
    await api.send('POST', '/api/v1/namespaces', { body: { metadata: { name: 'default' } } })
    await api.send('POST', `${namespace}/endpoints`, { body: found })
    t.after(() => api.send('DELETE', `${namespace}/endpoints/kubernetes`).then(() => {}))
  }

  /** Starts a drill, and resolves when its masters are listed. */
  async function started(cluster: Cluster, nodeArgs: readonly string[] = []): Promise<Program> {
    const program = await startDrill(
      owner,
      cluster,
      `${head}name: long
fleet:
  masters: 2
  ${quick}
duration: 90s
steps:
  - { at: 1s, action: freeze, masters: [master-2], part: sidecar }
`,
      ['--yes'],
      nodeArgs,
    )
    await untilPasses(
      'the first step',
      () => {
        program.assertRunning()
        assert.match(program.process.tail(60), /freeze/)
      },
      { withinMs: 90_000 },
    )
    return program
  }
})

/** Asserts that everything held in a drill, and returns what was reported. */
function held(
  t: TestContext,
  { code, report, output }: DrillOutcome,
): NonNullable<DrillOutcome['report']>['variants'][number] {
  const [variant] = report?.variants ?? []
  assert.ok(variant, output)
  for (const { events, violations } of variant.runs) {
    if (violations.length > 0) console.log(`${output}\n${JSON.stringify(events?.slice(-60))}`)
    assert.deepEqual(violations, [])
  }
  assert.equal(code, 0, output)
  t.diagnostic(JSON.stringify({ ...variant.figures.connections, writes: variant.figures.writes }))
  return variant
}

async function whenEnded(children: readonly number[]): Promise<void> {
  const check = (): void => assert.deepEqual(children.filter(isAlive), [])
  await untilPasses('its processes to end', check, { withinMs: 10_000 })
}

async function leasesIn({ etcd }: Cluster): Promise<unknown> {
  const prefix = Buffer.from('/registry/masterleases/')
  const end = Buffer.from('/registry/masterleases0')
  const { kvs = [] } = (await etcd.call('/v3/kv/range', {
    key: prefix.toString('base64'),
    range_end: end.toString('base64'),
  })) as { readonly kvs?: readonly unknown[] }
  return kvs
}
