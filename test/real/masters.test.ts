import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { type TestContext, test } from 'node:test'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import type { KubeEvent } from '../../src/kube/resources.ts'
import { encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { eventsFor } from '../peers/allocations.ts'
import { auditIn, auditUser, logOf } from '../peers/audit-lines.ts'
import { startCluster } from '../peers/cluster.ts'
import { startKine } from '../peers/kine.ts'
import { listedIn, readState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { programPath, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { type Child, spawnChild } from '../support/spawn-child.ts'

const { signal } = new AbortController()
/** Several reconciliations of a kube-apiserver, which happen every ten seconds. */
const withinMs = 60_000

interface Master {
  readonly address: string | null
  readonly host: string | null
  readonly hasLease: boolean
  readonly neverEnds: boolean
  readonly live: boolean | null
  readonly listed: boolean | null
  readonly state: string | null
  readonly conflicts: readonly { readonly code: string }[]
}

/** The program, in a home without any kubeconfig. */
function programIn(owner: Owner) {
  const HOME = temporaryDirectory(owner, 'home')
  const env = { HOME, KUBECONFIG: undefined, KUBERNETES_SERVICE_HOST: undefined }
  const start = (...args: readonly string[]): Promise<Child> =>
    spawnChild(owner, process.execPath, [programPath(), ...args], { env })
  const run = async (...args: readonly string[]) => {
    const child = await start(...args)
    const { code } = await child.exited
    return { code, stdout: child.stdout(), stderr: child.stderr() }
  }
  return {
    start,
    run,
    async list(...flags: readonly string[]): Promise<readonly Master[]> {
      const { code, stdout, stderr } = await run('masters', '--output=json', ...flags)
      assert.equal(code, 0, stderr)
      return (JSON.parse(stdout) as { masters: readonly Master[] }).masters
    },
  }
}

function openStore(t: TestContext, url: string): EtcdKv {
  const etcd = connectEtcd({ endpoints: [parseEndpoint(url)], clock: systemClock })
  t.after(() => etcd.close())
  return etcd
}

/** As by `etcdctl put`, without a lease. */
async function putWithoutLease(etcd: EtcdKv, address: string): Promise<void> {
  await etcd.create(`/registry/masterleases/${address}`, encodeMasterLease(address), { signal })
}

function codesOf(master: Master | undefined): readonly string[] | undefined {
  return master?.conflicts.map(({ code }) => code)
}

test('beside a kube-apiserver a lease key that never expires is shown and evicted; evictions of live masters are refused', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'stock', advertiseAddress: '192.0.2.250' })
  const store = openStore(t, etcd.url)
  const { run, list } = programIn(owner)
  const flags = [`--kubeconfig=${server.kubeconfig}`, `--etcd-servers=${etcd.url}`]
  const listed = async (...addresses: readonly string[]): Promise<void> => {
    await untilPasses(
      `Endpoints with ${addresses.join(', ')}`,
      async () => assert.deepEqual(listedIn((await readState(server.api)).endpoints).toSorted(), addresses),
      { withinMs },
    )
  }
  await listed('192.0.2.250')
  const last = await run('masters', 'evict', '192.0.2.250', '--force', '--yes', ...flags)
  assert.deepEqual([last.code, last.stdout], [1, ''])
  assert.match(last.stderr, /^refused: 192\.0\.2\.250 is the last one: [^\n]*\n$/)

  await putWithoutLease(store, '192.0.2.66')
  const master = await startMaster(owner, server, {
    address: '192.0.2.1',
    flags: [`--etcd-servers=${etcd.url}`],
  })
  await listed('192.0.2.1', '192.0.2.250', '192.0.2.66')
  const [ours, foreign, dead] = await list(...flags)
  assert.deepEqual(
    [ours?.address, ours?.live, ours?.listed, ours?.state, codesOf(ours)],
    ['192.0.2.1', true, true, 'ready', []],
  )
  assert.deepEqual(
    [foreign?.address, foreign?.live, foreign?.listed, codesOf(foreign)],
    ['192.0.2.250', true, true, ['no-holder']],
  )
  assert.deepEqual(
    [dead?.address, dead?.live, dead?.neverEnds, dead?.listed, codesOf(dead)],
    ['192.0.2.66', false, true, true, ['no-holder', 'never-ends']],
  )

  const dry = await run('masters', 'evict', '192.0.2.66', ...flags)
  assert.deepEqual([dry.code, dry.stderr], [0, ''])
  assert.match(
    dry.stdout,
    /^would remove \/registry\/masterleases\/192\.0\.2\.66 at revision \d+ [^\n]*use --yes to remove\n$/,
  )
  assert.equal((await list(...flags)).length, 3)
  const evictedAtSecond = Math.floor(Date.now() / 1000) * 1000
  const done = await run('masters', 'evict', '--yes', '192.0.2.66', ...flags)
  assert.deepEqual([done.code, done.stdout], [0, 'removed /registry/masterleases/192.0.2.66\n'])
  assert.deepEqual(auditIn(dry.stderr), [])
  const [line, ...more] = auditIn(done.stderr)
  assert.deepEqual([done.stderr.split('\n').length, more], [2, []], 'stderr has one line')
  assert.deepEqual(
    [line?.verb, line?.where, line?.reasons, line?.before, line?.after, line?.outcome, line?.user],
    [
      ...['evict', '/registry/masterleases/192.0.2.66', ['stale'], [{ address: '192.0.2.66' }], [], 'written'],
      auditUser(hostname()),
    ],
  )
  await listed('192.0.2.1', '192.0.2.250')
  // kube-apiserver reconciles every 10 s, and may be first.
  const { managedFields = [] } = (await readState(server.api)).endpoints?.metadata ?? {}
  const byServer = managedFields.some(
    ({ manager, time }) => manager === 'kube-apiserver' && new Date(time ?? 0).getTime() >= evictedAtSecond,
  )
  // The server shows the write a moment before the log line about it arrives here.
  if (!byServer) {
    await untilPasses(
      'the write that follows, in the log of the master',
      () => {
        const lists = auditIn(logOf(master)).filter(({ objectRef }) => objectRef.resource === 'endpoints')
        assert.deepEqual(lists.map(({ after }) => after).at(-1), ['192.0.2.1', '192.0.2.250'])
      },
      { withinMs },
    )
  }
  const evicted = await eventsFor(server.api, 'MasterEvicted')
  assert.deepEqual(
    evicted.map(({ regarding, note }) => [regarding?.kind, note]),
    [['Endpoints', `the lease of 192.0.2.66 was removed by masters evict: stale (by test on ${hostname()})`]],
  )

  for (const address of ['192.0.2.1', '192.0.2.250']) {
    const refused = await run('masters', 'evict', address, '--yes', ...flags)
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
    assert.match(refused.stderr, new RegExp(`^refused: ${address} is alive \\([^\\n]*\\n$`))
  }
  assert.equal((await run('masters', 'evict', '192.0.2.66', '--yes', ...flags)).code, 1)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

test('masters are shown and evicted with etcd alone, without an API server', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'stock' })
  const { run, list } = programIn(owner)
  await putWithoutLease(openStore(t, etcd.url), '192.0.2.66')
  const flags = [`--etcd-servers=${etcd.url}`]
  const masters = await list(...flags)
  assert.deepEqual(
    masters.map(({ address, listed }) => [address, listed]),
    [
      ['192.0.2.250', null],
      ['192.0.2.66', null],
    ],
  )
  const table = await run('masters', ...flags)
  assert.equal(table.code, 0)
  assert.match(table.stderr, /^the listed addresses are unknown: no cluster is configured[^\n]*\n$/)
  assert.match(table.stdout, /^192\.0\.2\.66 +- +- +- +never +- +- +no holder record; this lease never expires$/m)
  await server.kill()
  const away = await run('masters', `--kubeconfig=${server.kubeconfig}`, ...flags)
  assert.match(away.stderr, /^the listed addresses are unknown: [^\n]*\n$/)
  assert.equal((await run('masters', 'evict', '192.0.2.66', '--yes', ...flags)).code, 0)
  await etcd.kill()
  const failed = await run('masters', 'evict', '192.0.2.66', '--yes', ...flags)
  assert.deepEqual([failed.code, failed.stdout], [1, ''])
  assert.match(failed.stderr, /^apiserver-bootstrap: [^\n]+\n$/)
})

test('on kine an eviction watches whether a lease is renewed; if so it is refused, otherwise the lease expires', async (t) => {
  const owner = openOwner(t)
  const kine = await startKine(owner)
  const store = openStore(t, kine.url)
  const { run, list } = programIn(owner)
  const flags = [`--etcd-servers=${kine.url}`]
  await putWithoutLease(store, '192.0.2.66')
  const key = '/registry/masterleases/192.0.2.1'
  const value = encodeMasterLease('192.0.2.1')
  let revision = await store.create(key, value, { lease: (await store.grantLease(6, signal)).id, signal })
  const renewing = new AbortController()
  const renewed = (async () => {
    while (!renewing.signal.aborted) {
      const lease = (await store.grantLease(6, signal)).id
      if (revision !== undefined) revision = await store.update(key, value, revision, { lease, signal })
      await sleep(systemClock, 1_000, renewing.signal).catch(() => {})
    }
  })()
  try {
    const masters = await list(...flags)
    assert.deepEqual(
      masters.map(({ address, live, neverEnds }) => [address, live, neverEnds]),
      [
        ['192.0.2.1', null, false],
        ['192.0.2.66', false, true],
      ],
    )
    const refused = await run('masters', 'evict', '192.0.2.1', '--yes', ...flags)
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
    assert.match(
      refused.stderr,
      /^watching for 6s whether leases are renewed\nrefused: 192\.0\.2\.1 is alive \(no holder record, for 6s at a time\)[^\n]*\n$/,
    )
    assert.equal((await run('masters', 'evict', '192.0.2.66', '--yes', ...flags)).code, 0)
  } finally {
    renewing.abort()
    await renewed
  }
  const ended = await run('masters', 'evict', '192.0.2.1', '--yes', ...flags)
  assert.deepEqual([ended.code, ended.stdout], [0, 'the lease of 192.0.2.1 has expired\n'])
})

test('with Leases a killed fleet is shown as not renewed; its members can be evicted, but all stay listed', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const { run, list, start } = programIn(owner)
  const flags = [`--kubeconfig=${server.kubeconfig}`]
  assert.deepEqual(await list(...flags), [])
  const addresses = ['192.0.2.1', '192.0.2.2']
  const masters = await Promise.all(
    addresses.map((address) =>
      startMaster(owner, server, { address, flags: ['--lease-ttl=8s', '--reconcile-interval=2s'] }),
    ),
  )
  await untilPasses(
    'both listed',
    async () =>
      assert.deepEqual(
        (await list(...flags)).map(({ listed }) => listed),
        [true, true],
      ),
    { withinMs },
  )
  const watching = await start('masters', '--watch', ...flags)
  await watching.output(/^ADDRESS .*\n192\.0\.2\.1 .* yes +yes +-\n192\.0\.2\.2 .* yes +yes +-\n/m, withinMs)
  const live = await run('masters', 'evict', '192.0.2.1', '--yes', ...flags)
  assert.equal(live.code, 1)
  assert.match(live.stderr, /^watching for 8s [^\n]*\nrefused: 192\.0\.2\.1 is alive \(held by [^\n]*\n$/)

  for (const master of masters) await master.kill()
  const over = (address: string): string => `${address} .* over +yes +yes +the lease is not renewed\\n`
  await watching.output(new RegExp(`\\n\\nADDRESS .*\\n${addresses.map(over).join('')}`), withinMs)
  assert.deepEqual(await stopped(watching), { code: 0, signal: null })
  assert.equal(watching.stderr(), '')

  // Still listed: no master is left that could remove it.
  const done = await run('masters', 'evict', '192.0.2.1', '--yes', ...flags)
  assert.equal(done.code, 0, done.stderr)
  assert.match(done.stdout, /^removed Lease kube-system\/apiserver-bootstrap-192-0-2-1-[0-9a-f]+\n$/)
  const [line, ...more] = auditIn(done.stderr)
  assert.deepEqual(more, [])
  assert.deepEqual(
    [`removed ${line?.where}\n`, line?.objectRef.resource, line?.user],
    [...[done.stdout, 'leases'], auditUser(hostname())],
  )
  const events = await server.api.get<{ readonly items: readonly KubeEvent[] }>(
    '/apis/events.k8s.io/v1/namespaces/kube-system/events',
  )
  assert.deepEqual(
    events.items.map(({ reason, regarding }) => [reason, regarding?.kind, regarding?.name, regarding?.uid]),
    [['MasterEvicted', 'Lease', line?.objectRef.name, line?.objectRef.uid]],
  )
  const remaining = await list(...flags)
  assert.deepEqual(
    remaining.map((master) => [master.address, master.hasLease, ...(codesOf(master) ?? [])]),
    [
      ['192.0.2.1', false, 'listed-without-lease'],
      ['192.0.2.2', true],
    ],
  )
  assert.equal((await run('masters', 'evict', '192.0.2.2', '--yes', ...flags)).code, 0)
  assert.deepEqual(
    (await list(...flags)).map((master) => [master.address, master.hasLease, ...(codesOf(master) ?? [])]),
    addresses.map((address) => [address, false, 'listed-without-lease']),
  )
  assert.deepEqual(listedIn((await readState(server.api)).endpoints), addresses)
})

function stopped(child: Child): Child['exited'] {
  child.kill('SIGINT')
  return child.exited
}
