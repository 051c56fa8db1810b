import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { MasterPorts } from '../../src/bootstrap/master-options.ts'
import type { MasterSettings } from '../../src/config/master-options.ts'
import { restDiscovery } from '../../src/kube/discovery.ts'
import type { ReadinessCheck } from '../../src/kube/readiness.ts'
import { endpointSlices, events, leases, services } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiResponse, Transport } from '../../src/kube/transport.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { setUp } from './masters-world.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' }
const leftOut = /^the server does not serve the resources of this duty; waiting until it does \(to turn the duty off/
const resumed = 'the server now serves the resources of this duty; continuing it'

/** A master beside a server that does not serve what `hidden` matches, in its paths or in its discovery. */
function beside() {
  const world = setUp()
  const { server, ports, time } = world
  const state = { hidden: undefined as RegExp | undefined, refusesDiscovery: false, requests: [] as string[] }
  const real = inProcessTransport(server)
  const transport: Transport = {
    close: () => real.close(),
    async send(request, signal): Promise<ApiResponse> {
      state.requests.push(request.path)
      const { hidden } = state
      if (hidden?.test(request.path)) return { status: 404, headers: {}, body: '404 page not found' }
      if (state.refusesDiscovery && /^\/api\/v1$|^\/apis\/[^/]+\/v1$/.test(request.path)) {
        return { status: 403, headers: {}, body: { kind: 'Status', reason: 'Forbidden', message: 'no' } }
      }
      const answer = await real.send(request, signal)
      if (!('body' in answer) || !/^\/api\/v1$/.test(request.path)) return answer
      const body = answer.body as { readonly resources: readonly { readonly name: string }[] }
      return {
        ...answer,
        body: { ...body, resources: body.resources.filter(({ name }) => !hidden?.test(`/api/v1/${name}`)) },
      }
    },
  }
  const api = restKubeApi({ ...ports, transport })
  const begin = (settings: Partial<MasterSettings> = {}, more: Partial<MasterPorts> = {}) =>
    world.start(settings, { api, discovery: restDiscovery(transport), ...more })
  const faults = async (started: ReturnType<typeof begin>): Promise<readonly string[]> => {
    const checks = started.master.lifecycle.checks('readyz')
    const found = await Promise.all(checks.map(async ({ name, fault }) => ({ name, fault: await fault() })))
    return found.filter(({ fault }) => fault !== undefined).map(({ name }) => name)
  }
  const lines = (message: RegExp): readonly unknown[] =>
    world.logger.lines.filter((line) => message.test(line.message)).map(({ fields }) => fields.duty)
  const warnings = (): readonly string[] =>
    world.logger.lines.filter(({ level }) => level === 'warn' || level === 'error').map(({ message }) => message)
  return { ...world, state, begin, faults, lines, warnings, time }
}

const containerApis = /\/(services|endpoints|pods|nodes)(\/|$)|\/apis\/(discovery|networking)\.k8s\.io/

test('on a server without the container APIs each duty is suspended with one log line, and no check fails', async () => {
  const { state, begin, faults, lines, warnings, time, api } = beside()
  state.hidden = containerApis
  const started = begin()
  await time.advance(300_000)
  assert.equal(await Promise.race([started.ended, 'alive']), 'alive')
  assert.deepEqual([...lines(leftOut)].sort(), [
    'cluster-ip-repair',
    'default-service-cidr',
    'kubernetes-service',
    'node-port-repair',
  ])
  assert.deepEqual(await faults(started), [])
  assert.deepEqual(warnings(), [])
  // The master has its lease, because other masters may serve what this server lacks.
  assert.equal((await api.list(leases, { namespace: 'kube-system' })).items.length, 1)
  await started.end()
})

test('on a server without IPAddresses only the controller service-cidr is suspended', async () => {
  const { state, begin, faults, lines, warnings, time } = beside()
  // As up to 1.32: discovery is of the whole group.
  state.hidden = /\/apis\/networking\.k8s\.io\//
  const started = begin({ controllers: 'endpoints,service-cidr', leaderElect: 'false' })
  await time.advance(300_000)
  assert.deepEqual(lines(leftOut), ['service-cidr'])
  assert.deepEqual([await faults(started), warnings()], [[], []])
  await started.end()
})

test('a missing resource is probed by discovery about once a minute, and its duty starts when the resource appears', async () => {
  const { state, begin, faults, lines, warnings, time, api } = beside()
  state.hidden = containerApis
  const started = begin()
  await time.advance(60_000)
  state.requests.length = 0
  await time.advance(600_000)
  const asked = state.requests.filter((path) => /^\/apis?\//.test(path) && state.hidden?.test(`${path}/services`))
  const groupVersions = new Map<string, number>()
  for (const path of asked) groupVersions.set(path, (groupVersions.get(path) ?? 0) + 1)
  assert.ok(!asked.some((path) => /services$|ipaddresses$|servicecidrs$/.test(path)), asked.join('\n'))
  // One request for each resource. The core group has two of them.
  assert.ok((groupVersions.get('/apis/discovery.k8s.io/v1') ?? 0) <= 11, JSON.stringify([...groupVersions]))
  assert.ok((groupVersions.get('/api/v1') ?? 0) <= 22, JSON.stringify([...groupVersions]))

  state.hidden = undefined
  await time.advance(62_000)
  assert.deepEqual([...lines(new RegExp(`^${resumed}$`))].sort(), [
    'cluster-ip-repair',
    'default-service-cidr',
    'kubernetes-service',
    'node-port-repair',
  ])
  assert.equal((await api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.1'])
  assert.deepEqual([await faults(started), warnings()], [[], []])
  await started.end()
})

test('when the resources appear, a duty that the server performs itself is not logged as started', async () => {
  const { state, begin, lines, time, ports } = beside()
  state.hidden = containerApis
  const checks = [{ name: 'poststarthook/start-service-ip-repair-controllers', ok: true }]
  const started = begin({}, { readiness: { probe: async () => ({ answered: true, ready: true, checks }) } })
  await time.advance(60_000)
  state.hidden = undefined
  await time.advance(62_000)
  assert.deepEqual([...lines(new RegExp(`^${resumed}$`))].sort(), ['default-service-cidr', 'kubernetes-service'])
  const exposed = await ports.metrics.expose()
  assert.match(exposed, /duty_active\{duty="cluster-ip-repair"\} 0/)
  assert.match(exposed, /duty_active\{duty="default-service-cidr"\} 1/)
  await started.end()
})

test('a duty that waits for its resources stays inactive when the server stops performing it', async () => {
  const { state, begin, time, ports } = beside()
  state.hidden = containerApis
  const hook = { name: 'poststarthook/start-kubernetes-service-cidr-controller', ok: true }
  let checks: readonly ReadinessCheck[] = [hook]
  const started = begin({}, { readiness: { probe: async () => ({ answered: true, ready: true, checks }) } })
  await time.advance(60_000)
  const active = async () => /duty_active\{duty="default-service-cidr"\} (\d)/.exec(await ports.metrics.expose())?.[1]
  assert.equal(await active(), '0')
  checks = []
  await time.advance(90_000)
  assert.equal(await active(), '0')
  state.hidden = undefined
  await time.advance(62_000)
  assert.equal(await active(), '1')
  await started.end()
})

test('when the resources of a controller appear, only the leader of two processes is active', async () => {
  const { state, begin, time } = beside()
  state.hidden = containerApis
  const processes = ['192.0.2.1', '192.0.2.2'].map((advertiseAddress) => {
    const metrics = prometheusMetrics()
    return { metrics, ...begin({ controllers: 'auto,endpoints', advertiseAddress }, { metrics }) }
  })
  const active = async () => {
    const exposed = await Promise.all(processes.map(({ metrics }) => metrics.expose()))
    return exposed.map((text) => /duty_active\{duty="endpoints"\} (\d)/.exec(text)?.[1]).sort()
  }
  await time.advance(60_000)
  assert.deepEqual(await active(), ['0', '0'])
  state.hidden = undefined
  await time.advance(62_000)
  assert.deepEqual(await active(), ['0', '1'])
  for (const { end } of processes) await end()
})

test('a server that answers 404 for three seconds at its start causes no suspension', async () => {
  const { state, begin, lines, time, api } = beside()
  state.hidden = containerApis
  const started = begin()
  await time.advance(3_000)
  state.hidden = undefined
  await time.advance(10_000)
  assert.deepEqual(lines(leftOut), [])
  assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.1'])
  await started.end()
})

test('while discovery is refused, a suspended duty tries its resources itself, and starts', async () => {
  const { state, begin, faults, lines, time, api } = beside()
  state.hidden = containerApis
  const started = begin()
  const other = begin({ advertiseAddress: '192.0.2.2' })
  await time.advance(60_000)
  Object.assign(state, { hidden: undefined, refusesDiscovery: true })
  await time.advance(62_000)
  assert.equal(lines(new RegExp(`^${resumed}$`)).filter((duty) => duty === 'kubernetes-service').length, 2)
  const listed = async () =>
    (await api.get(endpointSlices, kubernetes)).endpoints?.flatMap(({ addresses }) => addresses)
  assert.deepEqual([await listed(), await faults(started)], [['192.0.2.1', '192.0.2.2'], []])
  await other.end()
  assert.deepEqual(await listed(), ['192.0.2.1'])
  await started.end()
})

test('two short spells of 404, minutes apart, suspend no duty', async () => {
  const { state, begin, lines, time, api } = beside()
  const started = begin()
  await time.advance(600_000)
  for (const lengthMs of [300, 1_500]) {
    state.hidden = containerApis
    await api.delete(endpointSlices, kubernetes).catch(() => {})
    await time.advance(lengthMs)
    state.hidden = undefined
    await time.advance(600_000)
  }
  assert.deepEqual(lines(leftOut), [])
  await started.end()
})

for (const [description, hidden, duties] of [
  ['that discovery contradicts', /\/namespaces\/default\/(services|endpoints|endpointslices)(\/|$)/, []],
  ['that discovery confirms', containerApis, ['kubernetes-service']],
] as const) {
  test(`a 404 ${description}, for a resource that was served before, removes no address from the list`, async () => {
    const { state, begin, lines, time, api, server, ports } = beside()
    const started = begin()
    await time.advance(10_000)
    state.hidden = hidden
    await time.advance(400_000)
    const others = restKubeApi({ ...ports, transport: inProcessTransport(server) })
    assert.deepEqual((await others.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.1'])
    assert.deepEqual(
      lines(leftOut).filter((duty) => duty === 'kubernetes-service'),
      duties,
    )
    state.hidden = undefined
    await time.advance(62_000)
    assert.equal((await api.list(events)).items.filter(({ reason }) => reason === 'MasterRemoved').length, 0)
    // The master notices changes again.
    await others.delete(endpointSlices, kubernetes)
    await time.advance(1_000)
    assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.1'])
    await started.end()
  })
}

test('a master that leaves withdraws its address without delay if the server does not serve the list', async () => {
  const { state, begin, time, logger } = beside()
  state.hidden = containerApis
  const started = begin()
  const other = begin({ advertiseAddress: '192.0.2.2' })
  await time.advance(30_000)
  await started.end()
  assert.ok(
    logger.lines.some(({ message, fields }) => message === 'withdrew the address' && fields.address === '192.0.2.1'),
  )
  const shut = logger.lines.find(({ message }) => message === 'shut down')
  assert.ok(Number(shut?.fields.durationMs) < 1_000, JSON.stringify(shut))
  await other.end()
})
