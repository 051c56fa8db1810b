import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { evictAddress } from '../../src/commands/masters-evict.ts'
import { MastersSource } from '../../src/commands/masters-source.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { Availability } from '../../src/kube/availability.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { type Endpoints, endpoints, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { EtcdLeaseInspector, type LeaseInspector } from '../../src/kubernetes-service/masters/inspection.ts'
import { encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { abortable } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger, silentLogger } from '../../src/telemetry/logger.ts'
import { holder } from '../kubernetes-service/leases/holders.ts'

const { signal } = new AbortController()
const prefix = '/registry'

async function setUp(
  flavour: 'etcd' | 'kine',
  options: { readonly listed?: readonly string[]; readonly inspector?: (real: LeaseInspector) => LeaseInspector } = {},
) {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const api = restKubeApi({ transport: inProcessTransport(createApiServer({ clock, random })), clock, random })
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } })
  if (options.listed !== undefined) {
    const subset = { addresses: options.listed.map((ip) => ({ ip })), ports: [{ name: 'https', port: 6443 }] }
    const metadata = { namespace: 'default', name: 'kubernetes' }
    await api.create(endpoints, { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets: [subset] } as Endpoints)
  }
  const etcd = new MemoryEtcd({ clock, flavour }).client()
  const real = new EtcdLeaseInspector({ etcd, prefix })
  const inspector = options.inspector?.(real) ?? real
  const reported: string[] = []
  const logger = memoryLogger()
  const recorded: EventToRecord[] = []
  const availability = new Availability({ clock, logger: silentLogger })
  return {
    time,
    reported,
    /** The fields of the log, which show who did what. */
    audited: () => logger.lines.map(({ fields }) => fields),
    recorded,
    leases: () => new EtcdLeases({ etcd, prefix, clock, logger: silentLogger, availability, ttlMs: 15_000 }),
    /** As by `etcdctl put`, by default without a lease. */
    put: (address: string, lease?: bigint) =>
      etcd.create(`${prefix}/masterleases/${address}`, encodeMasterLease(address), { signal, ...(lease && { lease }) }),
    grant: async () => (await etcd.grantLease(60, signal)).id,
    keys: async () =>
      (await etcd.list(`${prefix}/masterleases/`, { signal })).items.map(({ key }) => key.split('/').at(-1)),
    async evict(address: string, flags: { readonly force?: boolean; readonly yes?: boolean } = {}) {
      const { force = false, yes = true } = flags
      // Each eviction is a new run of the program.
      const audit = {
        logger,
        user: { host: 'host-9', etcdUser: 'admin' },
        events: { record: recorded.push.bind(recorded) },
      }
      const source = new MastersSource({
        clock,
        leaseStore: 'etcd',
        place: 'under /registry/masterleases/ in etcd',
        inspector,
        api,
        audit,
      })
      const done = evictAddress(source, { address, force, yes, report: (line) => reported.push(line) }, signal)
      let ended = false
      const noted = done.finally(() => {
        ended = true
      })
      await time.runUntil(() => ended, 120_000)
      return noted
    },
    /** Renews the lease every five seconds from now on. */
    keepRenewing(address: string): () => void {
      const stop = new AbortController()
      const master = this.leases()
      const renew = async (): Promise<void> => {
        for (;;) {
          await master.update(holder(address), stop.signal)
          await sleep(clock, 5_000, stop.signal)
        }
      }
      renew().catch(() => {})
      return () => stop.abort()
    },
  }
}

test('a lease that never expires is removed with --yes; without --yes it is only reported', async () => {
  const { put, leases, keys, evict, audited, recorded } = await setUp('etcd', { listed: ['192.0.2.1', '192.0.2.9'] })
  await leases().update(holder('192.0.2.1'), signal)
  await put('192.0.2.9')
  const dry = await evict('192.0.2.9', { yes: false })
  assert.equal(dry.code, 0)
  assert.match(
    dry.line,
    /^would remove \/registry\/masterleases\/192\.0\.2\.9 at revision \d+ \(no holder record, never ends\); use --yes to remove$/,
  )
  assert.deepEqual(await keys(), ['192.0.2.1', '192.0.2.9'])
  assert.deepEqual(audited(), [])
  assert.deepEqual(await evict('192.0.2.9'), { code: 0, line: 'removed /registry/masterleases/192.0.2.9' })
  assert.deepEqual(await keys(), ['192.0.2.1'])
  const [{ objectRef, ...line } = {}, ...more] = audited()
  assert.deepEqual(more, [])
  assert.deepEqual(line, {
    ...{ audit: true, verb: 'evict', where: '/registry/masterleases/192.0.2.9', reasons: ['stale'] },
    ...{ before: [{ address: '192.0.2.9' }], after: [], outcome: 'written' },
    user: { host: 'host-9', etcdUser: 'admin' },
  })
  const { resourceVersion, ...ref } = objectRef as Record<string, unknown>
  assert.deepEqual(ref, { resource: 'masterleases', namespace: undefined, name: '192.0.2.9', uid: undefined })
  assert.ok(dry.line.includes(` ${resourceVersion} `), dry.line)
  assert.deepEqual(
    recorded.map(({ reason, regarding, note }) => [reason, regarding.kind, note]),
    [['MasterEvicted', 'Endpoints', 'the lease of 192.0.2.9 was removed by masters evict: stale (by admin on host-9)']],
  )
})

test('a live lease is refused with a description; with --force it is removed, and its recreation announced', async () => {
  const { leases, keys, evict, audited } = await setUp('etcd')
  for (const address of ['192.0.2.1', '192.0.2.2']) await leases().update(holder(address), signal)
  assert.deepEqual(await evict('192.0.2.2'), {
    code: 1,
    line: 'refused: 192.0.2.2 is alive (held by host, ends in 15s unless renewed) and would be added again: stop or withdraw its master, or use --force',
  })
  assert.deepEqual(await keys(), ['192.0.2.1', '192.0.2.2'])
  const forced = await evict('192.0.2.2', { force: true })
  assert.deepEqual(forced, {
    code: 0,
    line: 'removed /registry/masterleases/192.0.2.2; a live master creates it again',
  })
  const [{ reasons, before } = {}, ...more] = audited()
  assert.deepEqual(more, [])
  const { host, instanceId } = holder('192.0.2.2')
  assert.deepEqual([reasons, before], [['force'], [{ address: '192.0.2.2', host, instanceId, state: 'ready' }]])
  assert.deepEqual(await keys(), ['192.0.2.1'])
})

test('a removal without an answer is logged with outcome unknown, records no Event, and rejects', async () => {
  const inspector = (real: LeaseInspector): LeaseInspector => ({
    inspect: (limit) => real.inspect(limit),
    async evict(sighting, limit) {
      if (sighting.address === '192.0.2.8') return abortable(new Promise<never>(() => {}), limit)
      await real.evict(sighting, limit)
      throw new EtcdError('Unreachable', 'connection reset')
    },
  })
  const { put, keys, evict, audited, recorded } = await setUp('etcd', { listed: ['192.0.2.1', '192.0.2.9'], inspector })
  for (const address of ['192.0.2.8', '192.0.2.9']) await put(address)
  await assert.rejects(evict('192.0.2.8'), /no answer within 15s/)
  await assert.rejects(evict('192.0.2.9'), /connection reset/)
  assert.deepEqual(await keys(), ['192.0.2.8'])
  assert.deepEqual(
    audited().map(({ verb, outcome, where }) => [verb, outcome, where]),
    [8, 9].map((number) => ['evict', 'unknown', `/registry/masterleases/192.0.2.${number}`]),
  )
  assert.deepEqual(recorded, [])
})

test('the last address is refused, even with --force', async () => {
  for (const force of [false, true]) {
    const { put, keys, evict } = await setUp('etcd', { listed: ['192.0.2.9'] })
    await put('192.0.2.9')
    assert.deepEqual(await evict('192.0.2.9', { force }), {
      code: 1,
      line: 'refused: 192.0.2.9 is the last one: no other address is listed or has a live lease',
    })
    assert.deepEqual(await keys(), ['192.0.2.9'])
  }
})

test('an address without a lease is refused, with a note if it is listed', async () => {
  const { evict } = await setUp('etcd', { listed: ['192.0.2.9'] })
  assert.deepEqual(await evict('192.0.2.8'), {
    code: 1,
    line: 'refused: 192.0.2.8 has no lease under /registry/masterleases/ in etcd',
  })
  assert.match(
    (await evict('192.0.2.9')).line,
    /^refused: 192\.0\.2\.9 has no lease under [^;]*; it is listed, and masters whose leases are there remove/,
  )
})

test('a withdrawn master is refused as such, but not if a kube-apiserver renews a lease at its address', async () => {
  const { put, grant, leases, evict } = await setUp('etcd', { listed: ['192.0.2.1'] })
  await leases().update({ ...holder('192.0.2.9'), state: 'withdrawn' }, signal)
  const withdrawn = 'refused: 192.0.2.9 is already withdrawn, and has no lease to remove'
  assert.deepEqual(await evict('192.0.2.9'), { code: 1, line: withdrawn })
  await put('192.0.2.9', await grant())
  assert.match((await evict('192.0.2.9')).line, /^refused: 192\.0\.2\.9 is alive /)
})

test('a lease that is written between read and removal is preserved', async () => {
  let between = async (): Promise<void> => {}
  const world = await setUp('etcd', {
    listed: ['192.0.2.1'],
    inspector: (real) => ({
      inspect: (at) => real.inspect(at),
      async evict(sighting, at) {
        await between()
        return real.evict(sighting, at)
      },
    }),
  })
  await world.put('192.0.2.9')
  const master = world.leases()
  between = () => master.update(holder('192.0.2.9'), signal)
  assert.deepEqual(await world.evict('192.0.2.9'), {
    code: 1,
    line: 'refused: /registry/masterleases/192.0.2.9 was written or removed meanwhile; run masters again',
  })
  assert.deepEqual(await world.keys(), ['192.0.2.9'])
})

test('if the store has no lease times, leases are watched for one TTL, and this is reported', async () => {
  const world = await setUp('kine', { listed: ['192.0.2.1', '192.0.2.2'] })
  const stop = world.keepRenewing('192.0.2.1')
  await world.time.advance(1_000)
  assert.match(
    (await world.evict('192.0.2.1')).line,
    /^refused: 192\.0\.2\.1 is alive \(held by host, for 15s at a time\)/,
  )
  assert.deepEqual(world.reported, ['watching for 15s whether leases are renewed'])
  stop()
  const ended = await world.evict('192.0.2.1')
  assert.deepEqual(ended, { code: 0, line: 'the lease of 192.0.2.1 has expired' })
})

test('leases that cannot be watched without interruption are not removed', async () => {
  const world = await setUp('kine', {
    listed: ['192.0.2.1'],
    inspector: (real) => ({
      evict: (sighting, at) => real.evict(sighting, at),
      async inspect(at) {
        await sleep(world.time.view(), 10_000, at)
        return (await real.inspect(at)).map((one) =>
          Object.assign(one, { life: { type: 'renewed', ttlMs: 15_000, leftMs: undefined } }),
        )
      },
    }),
  })
  await world.put('192.0.2.9')
  assert.deepEqual(await world.evict('192.0.2.9'), {
    code: 1,
    line: 'refused: the leases could not be watched without interruption; try again',
  })
  assert.deepEqual(await world.keys(), ['192.0.2.9'])
})

test('a kine lease that stays although nobody renews it is removed after the watch', async () => {
  const world = await setUp('kine', {
    listed: ['192.0.2.1'],
    // The lease stays, as in a store whose clock does not advance.
    inspector: (real) => ({
      evict: (sighting, at) => real.evict(sighting, at),
      inspect: async (at) =>
        (await real.inspect(at)).map((one) =>
          Object.assign(one, { life: { type: 'renewed', ttlMs: 15_000, leftMs: undefined } }),
        ),
    }),
  })
  await world.put('192.0.2.9')
  const dry = await world.evict('192.0.2.9', { yes: false })
  assert.match(dry.line, /^would remove .* \(no holder record, for 15s at a time\); use --yes to remove$/)
  assert.deepEqual(await world.evict('192.0.2.9'), { code: 0, line: 'removed /registry/masterleases/192.0.2.9' })
})
