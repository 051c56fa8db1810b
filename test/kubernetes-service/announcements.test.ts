import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { withdrawMaster } from '../../src/bootstrap/master.ts'
import { defineMaster } from '../../src/config/master-options.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { type Endpoints, endpointSlices, endpoints, events, services } from '../../src/kube/resources.ts'
import { Announcements, LeaseTelemetry } from '../../src/kubernetes-service/announcements.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { type LogFields, type Logger, memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { passedOn } from '../kube/passed-on.ts'
import { OtherWritersWorld, type RunningMaster } from './other-writers-world.ts'

const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
const unready: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: 'informer-sync', ok: false }] }
const silent: ReadinessAnswer = { answered: false, reason: 'refused' }

/** A server whose health can be changed. */
function changing() {
  let answer = ready
  return {
    ports: { readiness: { probe: async () => answer } },
    becomes(next: ReadinessAnswer) {
      answer = next
    },
  }
}

async function notes(world: OtherWritersWorld, reason: string): Promise<readonly (string | undefined)[]> {
  return (await world.eventsAbout(reason)).map(({ note }) => note).sort()
}

const master = (number: number) => ({ address: `192.0.2.${number}`, host: `host-${number}` })

/** The audit entries of a master for one of the three objects. */
function audited(master: RunningMaster | undefined, resource: string) {
  const lines = master?.logged(/^(?:resetting|created)/) ?? []
  return lines.filter(({ fields }) => fields.audit === true && (fields.objectRef as ObjectRef).resource === resource)
}

type ObjectRef = { readonly resource: string; readonly resourceVersion?: string }

/** Every change of the list that the logs of the masters report, without duplicates, additions first. */
function changesIn(masters: readonly RunningMaster[]) {
  const lines = masters.flatMap((each) => audited(each, 'endpoints'))
  return lines
    .map(({ fields: { added, removed } }) => ({ added, removed }) as { added: unknown[]; removed: unknown[] })
    .sort((a, b) => b.added.length - a.added.length || JSON.stringify(a).localeCompare(JSON.stringify(b)))
}

test('each listed or removed master is reported once per fleet, in the log and by an event, with the reason of its removal', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const [second, third] = [changing(), changing()]
  const masters = [
    world.start(1),
    world.start(2, {}, second.ports),
    world.start(3, { readinessGate: 'startup' }, third.ports),
    world.start(4),
  ]
  await time.advance(3_000)
  const all = [1, 2, 3, 4].map((number) => `192.0.2.${number} (host-${number})`)
  assert.deepEqual(
    await notes(world, 'MasterListed'),
    all.map((name) => `${name} is listed`),
  )

  second.becomes(unready)
  await time.advance(6_000)
  third.becomes(silent)
  await time.advance(30_000)
  masters[3]?.stop()
  await time.advance(1_000)
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  assert.deepEqual(await notes(world, 'MasterRemoved'), [
    `${all[1]} is no longer listed: its API server is not ready (failing checks: informer-sync)`,
    `${all[2]} is no longer listed: its lease has ended`,
    `${all[3]} is no longer listed: it is leaving`,
  ])
  assert.deepEqual(changesIn(masters), [
    { added: [1, 2, 3, 4].map(master), removed: [] },
    { added: [], removed: [{ ...master(2), reason: 'unready', detail: 'failing checks: informer-sync' }] },
    { added: [], removed: [{ ...master(3), reason: 'lease-ended' }] },
    { added: [], removed: [{ ...master(4), reason: 'leaving' }] },
  ])
  const ended = masters
    .flatMap((each) => audited(each, 'endpoints'))
    .find(({ fields }) => JSON.stringify(fields.removed).includes('lease-ended'))
  const [, example = ''] = /```json\n(.*)\n```/.exec(readFileSync('docs/audit.md', 'utf8')) ?? []
  const shapeOf = ({ level, time, message, user, ...fields }: LogFields) => [
    Object.keys(fields).toSorted(),
    Object.keys(fields.objectRef as object).toSorted(),
  ]
  const line = JSON.parse(JSON.stringify(ended?.fields))
  assert.deepEqual(shapeOf(line), shapeOf(JSON.parse(example)), 'the line equals the example in docs/audit.md')
  const delays = await Promise.all(
    masters.map((each) => each.sample('apiserver_bootstrap_removal_delay_seconds_count')),
  )
  assert.equal(
    delays.reduce((sum, count) => sum + count, 0),
    3,
    'each removal was measured once, by the master that removed the address',
  )
  const states = ['ready', 'failing', 'unready', 'leaving', 'withdrawn', 'foreign', 'suspected-expiry']
  const counts = await Promise.all(
    states.map((state) => masters[0]?.sample(`apiserver_bootstrap_masters{state="${state}"}`)),
  )
  assert.deepEqual(counts, [1, 0, 1, 0, 0, 0, 0])
  assert.equal(await masters[0]?.sample('apiserver_bootstrap_listed_addresses'), 1)
})

test('the audit trail has one line per write: user, verb, object, and addresses and ports before and after', async (t) => {
  const world = new OtherWritersWorld(t)
  const user = { kubeconfigUser: 'admin', localUser: 'root' }
  const first = world.start(1, {}, { user })
  await world.time.advance(3_000)
  const vandal = world.connect('vandal')
  const subsets = [{ addresses: [{ ip: '198.51.100.1' }], ports: [{ name: 'https', port: 1 }] }]
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { subsets } })
  await world.time.advance(1_000)

  const lines = audited(first, 'endpoints')
  const common = { controller: 'kubernetes-service', audit: true, outcome: 'written' }
  const who = { user: { host: 'host-1', ...user } }
  const ports = [1, 6443].map((port) => [{ name: 'https', port, protocol: 'TCP' }])
  assert.deepEqual(
    lines.map(({ fields: { objectRef, ...fields } }) => fields),
    [
      {
        ...{ ...common, ...who, verb: 'create', before: [], after: ['192.0.2.1'], writer: undefined },
        ...{ portsBefore: [], portsAfter: ports[1], added: [master(1)], removed: [], reasons: ['missing'] },
      },
      {
        ...{ ...common, ...who, verb: 'update', before: ['198.51.100.1'], after: ['192.0.2.1'], writer: 'vandal' },
        ...{ portsBefore: ports[0], portsAfter: ports[1], added: [master(1)], reasons: ['ports', 'addresses'] },
        removed: [{ address: '198.51.100.1', host: undefined, reason: 'no-lease' }],
      },
    ],
  )
  const stored = await vandal.get(endpoints, KUBERNETES_SERVICE)
  const { uid, resourceVersion } = stored.metadata ?? {}
  assert.deepEqual(lines[1]?.fields.objectRef, {
    ...{ resource: 'endpoints', apiVersion: 'v1', ...KUBERNETES_SERVICE },
    ...{ uid, resourceVersion },
  })
  assert.deepEqual(
    audited(first, 'endpointslices').map(({ fields }) => [fields.verb, fields.before, fields.after]),
    [['create', [], ['192.0.2.1']]],
  )
  assert.deepEqual(
    audited(first, 'services').map(({ fields }) => [fields.verb, fields.before, fields.after]),
    [['create', [], ['10.0.0.1']]],
  )
})

test('a write whose answer is lost is audited once, with the outcome unknown, and reported by no event', async (t) => {
  const world = new OtherWritersWorld(t)
  const { api, faults } = world.connectFaulty('apiserver-bootstrap')
  const first = world.start(1, {}, { api })
  await world.time.advance(3_000)
  const [path, methods] = ['/api/v1/namespaces/default/endpoints', ['PUT'] as const]
  const vandal = world.connect('vandal')
  const change = (ip: string) =>
    vandal.patch(endpoints, KUBERNETES_SERVICE, {
      type: 'merge',
      body: { subsets: [{ addresses: [{ ip }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }] },
    })
  const outcomes = (since: number) =>
    audited(first, 'endpoints')
      .slice(since)
      .map(({ fields: { outcome, before, after, error } }) => {
        assert.equal(error !== undefined, outcome === 'unknown', 'an unknown outcome, and no other, has an error')
        return [outcome, before, after]
      })
  const own = ['192.0.2.1']

  faults.add({ fault: { type: 'drop', lost: 'answer' }, pathPrefix: path, methods, times: 1 })
  const eventsBefore = (await world.eventsAbout('MasterListed')).length
  await change('198.51.100.1')
  await world.time.advance(30_000)
  assert.deepEqual(await world.listed(), own)
  assert.deepEqual(outcomes(1), [['unknown', ['198.51.100.1'], own]])
  assert.equal((await world.eventsAbout('MasterListed')).length, eventsBefore)

  // A refused write is not reported, because it wrote nothing. A write that fails again and again is reported once.
  faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: path, methods, times: 3 })
  await change('198.51.100.2')
  await world.time.advance(30_000)
  assert.deepEqual(outcomes(2), [['written', ['198.51.100.2'], own]])
  faults.add({ fault: { type: 'status', status: 500 }, pathPrefix: path, methods, times: 5 })
  await change('198.51.100.3')
  await world.time.advance(30_000)
  assert.deepEqual(outcomes(3), [
    ['unknown', ['198.51.100.3'], own],
    ['written', ['198.51.100.3'], own],
  ])
})

test('a master that the withdraw command removes is reported as withdrawn', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  world.start(2)
  await world.time.advance(3_000)
  const ports = {
    api: world.connect('apiserver-bootstrap'),
    readiness: changing().ports.readiness,
    clock: world.time.view(),
    random: seededRandom(2, 'withdraw'),
    logger: memoryLogger(),
    metrics: prometheusMetrics(),
    user: { kubeconfigUser: 'admin' },
  }
  const options = defineMaster({ advertiseAddress: '192.0.2.2' }, 'host-2')
  assert.equal((await withdrawMaster(options, ports, new AbortController().signal)).type, 'withdrawn')
  await world.time.advance(1_000)
  assert.deepEqual(await notes(world, 'MasterRemoved'), ['192.0.2.2 (host-2) is no longer listed: it was withdrawn'])
  assert.deepEqual(await notes(world, 'MasterWithdrawn'), ['192.0.2.2 (host-2) was withdrawn (by admin on host-2)'])
  const [line, ...more] = ports.logger.lines.filter(({ fields }) => fields.verb === 'withdraw')
  assert.deepEqual(more, [])
  const { objectRef, where, reasons, before, after, outcome, user } = line?.fields ?? {}
  assert.deepEqual(
    [objectRef, where, reasons, outcome, user],
    [
      { resource: 'masterleases', name: '192.0.2.2' },
      'among the Leases in kube-system',
      ['withdraw'],
      'written',
      { host: 'host-2', kubeconfigUser: 'admin' },
    ],
  )
  const { instanceId, ...self } = before as Record<string, string>
  assert.deepEqual(self, { host: 'host-2', state: 'ready' })
  assert.deepEqual(after, { ...self, instanceId, state: 'withdrawn' })
  assert.equal((await withdrawMaster(options, ports, new AbortController().signal)).type, 'withdrawn')
  assert.equal(ports.logger.lines.filter(({ fields }) => fields.verb === 'withdraw').length, 1, 'nothing was written')
})

test('a master that withdraws itself when it stops is reported as leaving, though its lease is deleted before the list changes', async (t) => {
  const world = new OtherWritersWorld(t)
  const api = world.connect('apiserver-bootstrap')
  const writes: string[] = []
  const noting = passedOn(api, {
    update: (resource, object, more) => {
      writes.push(`update ${resource.plural}`)
      return api.update(resource, object, more)
    },
    delete: (resource, ref, more) => {
      writes.push(`delete ${resource.plural}`)
      return api.delete(resource, ref, more)
    },
  })
  const only = world.start(1, { onShutdown: 'always' }, { api: noting })
  await world.time.advance(3_000)
  writes.length = 0
  only.stop()
  await world.time.advance(1_000)
  assert.deepEqual(
    writes.filter((write) => /leases|endpoints$/.test(write)),
    ['delete leases', 'update endpoints'],
  )
  assert.deepEqual(await notes(world, 'MasterRemoved'), ['192.0.2.1 (host-1) is no longer listed: it is leaving'])
})

test('a master whose address another host holds emits LeaseTakenOver; a restarted master does not', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  await world.time.advance(3_000)
  const again = world.start(1)
  await world.time.advance(3_000)
  again.stop()
  assert.deepEqual(await notes(world, 'LeaseTakenOver'), [])
  const { api, faults } = world.connectFaulty('apiserver-bootstrap')
  faults.add({ fault: { type: 'status', status: 403 }, methods: ['POST'], pathPrefix: '/apis/coordination.k8s.io' })
  world.start(2, { advertiseAddress: '192.0.2.1' }, { api })
  await world.time.advance(8_000)
  assert.deepEqual(await notes(world, 'LeaseTakenOver'), [], 'the restarted master has no lease yet')
  faults.clear()
  await world.time.advance(15_000)
  const [note, ...more] = await notes(world, 'LeaseTakenOver')
  assert.match(note ?? '', /^192\.0\.2\.1 is now held by host-2 and also by host-1:/)
  assert.deepEqual(more, [])
})

test('a foreign change of Service, Endpoints or EndpointSlice is reported by an event; their creation at the start is not', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const vandal = world.connect('vandal')
  const ports = [{ name: 'x', port: 8443, targetPort: 1 }]
  world.start(1)
  await time.advance(3_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [])
  await vandal.patch(services, KUBERNETES_SERVICE, { type: 'merge', body: { spec: { ports } } })
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null } } })
  await vandal.delete(endpointSlices, KUBERNETES_SERVICE)
  await time.advance(1_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [
    'EndpointSlice default/kubernetes was deleted and created again',
    'Endpoints default/kubernetes was changed (skip-mirror-label) and corrected',
    'Service default/kubernetes was changed by vandal (ports) and corrected',
  ])
  const [service] = (await world.eventsAbout('KubernetesServiceReset')).filter(
    ({ regarding }) => regarding?.kind === 'Service',
  )
  assert.equal(service?.regarding?.uid, (await vandal.get(services, KUBERNETES_SERVICE)).metadata?.uid)
})

test('a Service and Endpoints that a master finds out of sync at its start are reported by events, without a writer', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const earlier = world.start(1, { onShutdown: 'keep' })
  await time.advance(3_000)
  earlier.stop()
  await time.advance(1_000)
  const vandal = world.connect('vandal')
  const ports = [{ name: 'x', port: 8443, targetPort: 1 }]
  await vandal.patch(services, KUBERNETES_SERVICE, { type: 'merge', body: { spec: { ports } } })
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null } } })
  await time.advance(1_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [], 'no master runs')
  world.start(1)
  await time.advance(3_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [
    'Endpoints default/kubernetes was found out of sync (skip-mirror-label) and corrected',
    'Service default/kubernetes was found out of sync (ports) and corrected',
  ])
})

test('a dry run records no event and no audit entry', async (t) => {
  const world = new OtherWritersWorld(t)
  const master = world.start(1)
  await world.time.advance(3_000)
  master.stop()
  await world.time.advance(30_000)
  const api = world.connect('somebody')
  const before = (await api.list(events)).items.length
  const dry = world.start(2, { dryRun: 'true' })
  let round = 0
  const rename = () => {
    const subsets = [{ addresses: [{ ip: `198.51.100.${++round % 9}` }], ports: [{ port: 1 }] }]
    return api.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { subsets } })
  }
  await world.repeat(rename, { everyMs: 100, forMs: 15_000 })
  assert.deepEqual(dry.logged(/keeps overwriting/), [], 'a dry run cannot be overwritten')
  assert.ok(dry.logged(/^dry run: would reset endpoints/).length > 0)
  assert.deepEqual(
    dry.logged(/^/).filter(({ fields }) => 'audit' in fields || 'outcome' in fields),
    [],
  )
  await world.time.advance(60_000)
  dry.stop()
  await world.time.advance(30_000)
  assert.equal((await api.list(events)).items.length, before)
  assert.deepEqual(
    dry.logged(/would write/).filter((line) => JSON.stringify(line).includes('"Event"')),
    [],
  )
})

/** The telemetry of a lease of 15 s, and what it logs. The test sets the time. */
function telemetryAt(renewedMs: number | undefined, nowMs: number) {
  const logged: unknown[] = []
  const line = (fields: object, message: string): void => void logged.push({ ...fields, message })
  const logger: Logger = { debug() {}, info: line, warn: line, error: line, child: () => logger }
  const telemetry = new LeaseTelemetry({
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs, schedule: () => () => {} },
    logger,
    metrics: prometheusMetrics(),
    events: noEvents,
    address: '192.0.2.1',
    leaseTtlMs: 15_000,
    renewedMs: () => renewedMs,
  })
  return { telemetry, logged }
}

test('a renewal after the end of the lease is logged', () => {
  const { telemetry, logged } = telemetryAt(1_000, 21_000)
  telemetry.attempted(undefined)
  assert.deepEqual(logged, [
    {
      address: '192.0.2.1',
      unrenewedMs: 20_000,
      leaseTtlMs: 15_000,
      message: "this master's lease was not renewed in time; others may have taken its address off the list",
    },
  ])
})

test('a renewal in time, a first renewal and a failed renewal are not logged as late', () => {
  for (const [renewedMs, nowMs, error] of [
    [1_000, 16_000, undefined],
    [undefined, 90_000, undefined],
    [1_000, 21_000, new Error('refused')],
  ] as const) {
    const { telemetry, logged } = telemetryAt(renewedMs, nowMs)
    telemetry.attempted(error)
    assert.deepEqual(logged, [])
  }
})

test('null in a list of masters, as a server may write an empty list, counts as empty in the audit trail', () => {
  const logger = memoryLogger()
  const shared = { clock: new VirtualClock().view(), logger, events: noEvents, address: '192.0.2.1', fleet: undefined }
  const metadata = { ...KUBERNETES_SERVICE }
  const stored: Endpoints = { metadata, subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 6443 }] }] }
  const write = { resource: endpoints, verb: 'update', reasons: ['subsets'], correction: undefined } as const
  for (const empty of [{ subsets: null }, { subsets: [{ ports: null }] }, { endpoints: [{ addresses: null }] }]) {
    new Announcements(shared).written({ ...write, found: { metadata, ...empty } as unknown as Endpoints, stored })
  }
  assert.deepEqual(
    logger.lines.map(({ fields: { before, after, portsBefore, portsAfter } }) => [
      before,
      after,
      portsBefore,
      portsAfter,
    ]),
    Array(3).fill([[], ['192.0.2.1'], [], [{ port: 6443 }]]),
  )
})

for (const leaseStore of ['kubernetes', 'etcd']) {
  test(`of two running copies of one sidecar the earlier one warns once, with leases in ${leaseStore}`, async (t) => {
    const world = new OtherWritersWorld(t)
    const settings = { leaseStore, ...(leaseStore === 'etcd' && { etcdServers: 'http://127.0.0.1:2379' }) }
    const replaced = /another process with this master's host name and address/
    const before = world.start(1, settings)
    await world.time.advance(20_000)
    before.stop()
    await world.time.advance(10_000)
    const first = world.start(1, settings)
    await world.time.advance(20_000)
    assert.deepEqual(first.logged(replaced), [])
    const second = world.start(1, settings)
    await world.time.advance(60_000)
    const [{ level, fields } = {}, ...more] = first.logged(replaced)
    assert.deepEqual([level, fields?.address, fields?.host, more], ['warn', '192.0.2.1', 'host-1', []])
    assert.deepEqual(
      [before, second].flatMap((one) => one.logged(replaced)),
      [],
    )
  })
}
