import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { KubeError } from '../../../src/kube/errors.ts'
import type { Readiness } from '../../../src/kube/readiness.ts'
import {
  type Endpoints,
  endpointSlices,
  endpoints,
  namespaces,
  nodes,
  serviceCidrs,
  services,
} from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../../src/kube/transport.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { checkIds, checkTexts } from '../../../src/verify/cluster/check-ids.ts'
import { chosenChecks } from '../../../src/verify/cluster/evaluate.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import type { ClusterSource } from '../../../src/verify/cluster/read-cluster.ts'
import type { Expectations } from '../../../src/verify/cluster/state.ts'
import { checkCluster, failedIn, verifyCluster, verifyUntil } from '../../../src/verify/cluster/verify-cluster.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' } as const

/** The same API, in which lists of some resources reject. */
function rejecting(api: KubeApi, fails: Readonly<Record<string, KubeError>>): KubeApi {
  const list: KubeApi['list'] = async (resource, query) => {
    const error = fails[resource.plural]
    if (error !== undefined) throw error
    return api.list(resource, query)
  }
  return passedOn(api, { list })
}

test('a check whose objects are forbidden or not served is skipped with the reason', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const source = {
    api: rejecting(api, {
      services: new KubeError('Forbidden', 'list services: forbidden'),
      endpointslices: new KubeError('NotFound', 'list endpointslices: 404'),
      servicecidrs: new KubeError('Refused', 'list servicecidrs: 405'),
    }),
  }
  const only = ['kubernetes-service', 'kubernetes-endpointslice', 'service-cidr'] as const
  const { results, holds } = await verify({ source, only })
  assert.ok(holds)
  assert.deepEqual(
    results.map((result) => [result.status, result.status === 'skipped' && result.reason]),
    [
      ['skipped', 'list services: forbidden'],
      ['skipped', 'the server does not have it: list endpointslices: 404'],
      ['skipped', 'list servicecidrs: 405'],
    ],
  )
})

test('an unreachable or failing cluster rejects instead of giving a report', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  for (const code of ['Unreachable', 'Unauthorized', 'ServerError'] as const) {
    const source = { api: rejecting(api, { endpoints: new KubeError(code, 'no') }) }
    await assert.rejects(verify({ source }), { code })
  }
})

test('a server that does not serve Nodes needs no namespace kube-node-lease', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  await api.delete(
    { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace', namespaced: false },
    { name: 'kube-node-lease' },
  )
  assert.deepEqual(failedIn(await verify()), ['system-namespaces'])
  const source = { api: rejecting(api, { [nodes.plural]: new KubeError('NotFound', 'no Nodes') }) }
  assert.deepEqual(failedIn(await verify({ source })), [])
})

test('damage that a controller corrects between two reads is not reported', async () => {
  const { api, time, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { spec } = await api.get(services, kubernetes)
  const ports = (port: number) => ({ spec: { ports: [{ ...spec?.ports?.[0], port }] } })
  await api.patch(services, kubernetes, { type: 'merge', body: ports(444) })
  time.view().schedule(50, () => void api.patch(services, kubernetes, { type: 'merge', body: ports(443) }))
  const report = await verify()
  assert.deepEqual(failedIn(report), [])
  assert.deepEqual(
    report.results.find(({ id }) => id === 'kubernetes-service'),
    {
      ...report.results.find(({ id }) => id === 'kubernetes-service'),
      status: 'held',
    },
  )
})

test('the range given by the flag is required, whatever the ServiceCIDR states', async () => {
  const { verify } = await bootstrapped({ advertiseAddress: '192.0.2.1', serviceClusterIpRange: '10.96.0.0/12' })
  const expected = (range: string) =>
    verify({ only: ['kubernetes-service', 'service-cidr'], expect: { serviceClusterIpRange: [parseCidr(range)] } })
  assert.deepEqual(failedIn(await expected('10.96.0.0/12')), [])
  const report = await expected('10.80.0.0/12')
  assert.deepEqual(
    findingsOf(report).map(({ expected, found }) => [expected, found]),
    [
      ['ClusterIP 10.80.0.1', 'ClusterIP 10.96.0.1'],
      ['10.80.0.0/12', '10.96.0.0/12'],
    ],
  )
})

test('if the given range may be mistyped, no command deletes or changes anything', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1', serviceClusterIpRange: '10.96.0.0/12' })
  const expect = { serviceClusterIpRange: [parseCidr('10.80.0.0/12')] }
  const findings = async () => findingsOf(await verify({ expect }))
  const found = await findings()
  assert.ok(found.some(({ expected }) => expected === 'a ClusterIP in 10.80.0.0/12'))
  assert.ok(found.some(({ object }) => object === 'ServiceCIDR kubernetes'))
  await api.delete(serviceCidrs, { name: 'kubernetes' })
  for (const { object, remedy } of [...found, ...(await findings())]) {
    const line = shellLine(remedy, { kubectl: [], 'apiserver-bootstrap': [] })
    assert.match(line, /^# check --service-cluster-ip-range first: /, object)
  }
})

test('a missing ServiceCIDR of unknown range has a manual step instead of a command', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  await api.delete(serviceCidrs, { name: 'kubernetes' })
  const [finding] = findingsOf(await verify({ only: ['service-cidr'] }))
  assert.match(finding?.remedy[0]?.args[0] ?? '', /^the range is not known/)
})

test('without a known range the ClusterIP must be the first of some range', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1', serviceClusterIpRange: '10.96.0.0/12' })
  const source = { api: rejecting(api, { servicecidrs: new KubeError('NotFound', 'no ServiceCIDRs') }) }
  assert.deepEqual(failedIn(await verify({ source })), [])
  const { spec } = await api.get(services, kubernetes)
  await api.delete(services, kubernetes)
  const labels = { component: 'apiserver', provider: 'kubernetes' }
  const moved = { type: 'ClusterIP', clusterIP: '10.96.0.4', ports: spec?.ports }
  await api.create(services, { metadata: { ...kubernetes, labels }, spec: moved } as never)
  assert.deepEqual(failedIn(await verify({ source, only: ['kubernetes-service'] })), ['kubernetes-service'])
})

test('a correct dual-stack cluster passes, and its second slice is checked too', async () => {
  const { api, verify } = await bootstrapped({
    advertiseAddress: '192.0.2.1,2001:db8::1',
    serviceClusterIpRange: '10.96.0.0/12,fd00::/108',
  })
  assert.deepEqual(failedIn(await verify()), [])
  const second = { namespace: 'default', name: 'kubernetes-ipv6' }
  await api.patch(endpointSlices, second, { type: 'merge', body: { ports: [{ name: 'https', port: 1 }] } })
  assert.deepEqual(failedIn(await verify()), ['kubernetes-endpointslice'])
  await api.delete(endpointSlices, second)
  assert.deepEqual(failedIn(await verify()), ['kubernetes-service'])
})

test('missing Endpoints are created from the slice or from the leases; without both there is a manual step', async () => {
  const { api, verify, execute } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { subsets } = await api.get(endpoints, kubernetes)
  assert.deepEqual(
    subsets?.[0]?.addresses?.map(({ ip }) => ip),
    ['192.0.2.1'],
  )
  await api.delete(endpoints, kubernetes)
  const [finding] = findingsOf(await verify())
  const { args, input } = finding?.remedy[0] ?? {}
  assert.deepEqual(args, ['create', '--filename=-'])
  assert.deepEqual([(input as Endpoints).metadata?.name, (input as Endpoints).subsets], ['kubernetes', subsets])
  const slice = await api.get(endpointSlices, kubernetes)
  await api.delete(endpointSlices, kubernetes)
  const source = { api, leaseNamespace: 'nowhere' }
  const [without] = findingsOf(await verify({ source, only: ['kubernetes-endpoints'] }))
  assert.equal(without?.remedy[0]?.tool, 'by-hand')
  const [fromLeases] = findingsOf(await verify({ only: ['kubernetes-endpoints'] }))
  for (const command of fromLeases?.remedy ?? []) await execute(command)
  assert.deepEqual((await api.get(endpoints, kubernetes)).subsets, subsets)
  assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints, slice.endpoints)
  assert.deepEqual(findingsOf(await verify()), [])
})

test('if Endpoints and slice list different addresses only the leases decide which are right', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { subsets } = await api.get(endpoints, kubernetes)
  const bogus = subsets?.map((subset) => ({ ...subset, addresses: [{ ip: '192.0.2.66' }] }))
  await api.patch(endpoints, kubernetes, { type: 'merge', body: { subsets: bogus } })
  const repair = async (leaseNamespace?: string) => {
    const [finding] = findingsOf(await verify({ source: { api, leaseNamespace }, only: ['kubernetes-endpointslice'] }))
    return shellLine(finding?.remedy ?? [], { kubectl: [], 'apiserver-bootstrap': [] })
  }
  assert.match(await repair('nowhere'), /^# cannot decide whether the Endpoints or the slice are right/)
  assert.match(await repair(), /^kubectl patch endpoints .*192\.0\.2\.1.* && kubectl patch endpointslices/)
  assert.doesNotMatch(await repair(), /192\.0\.2\.66/)
})

test('a missing Service has a command only while its target port is known', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const repair = async () =>
    findingsOf(await verify({ only: ['kubernetes-service'] })).map(({ remedy }) => remedy[0]?.tool)
  await api.delete(services, kubernetes)
  assert.deepEqual(await repair(), ['kubectl'])
  await api.delete(endpointSlices, kubernetes)
  await api.delete(endpoints, kubernetes).catch(() => {})
  assert.deepEqual(await repair(), ['by-hand'])
})

test('a Service without a ClusterIP has a manual step instead of a command if the range is unknown', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const spec = { type: 'ExternalName', externalName: 'example.com', clusterIP: null, clusterIPs: null }
  await api.patch(services, kubernetes, { type: 'merge', body: { spec } })
  const repair = async () =>
    findingsOf(await verify({ only: ['kubernetes-service'] })).map(({ remedy }) => remedy[0]?.tool)
  assert.ok((await repair()).every((tool) => tool === 'kubectl'))
  for (const { metadata } of (await api.list(serviceCidrs)).items)
    await api.delete(serviceCidrs, { name: metadata?.name ?? '' })
  assert.ok((await repair()).every((tool) => tool === 'by-hand'))
})

test('type NodePort is reported only if the Service differs from what a master creates', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const failed = async () => findingsOf(await verify({ only: ['kubernetes-service'] })).map(({ found }) => found)
  await api.patch(services, kubernetes, { type: 'merge', body: { spec: { type: 'NodePort' } } })
  assert.deepEqual(await failed(), [])
  await api.patch(services, kubernetes, { type: 'merge', body: { spec: { sessionAffinity: 'ClientIP' } } })
  assert.ok((await failed()).includes('type NodePort'))
})

test('only and skip select checks by id, in the order of reports', () => {
  assert.deepEqual(chosenChecks({ only: ['kubernetes-service', 'system-namespaces'] }), [
    'system-namespaces',
    'kubernetes-service',
  ])
  assert.ok(!chosenChecks({ skip: ['kubernetes-service'] }).includes('kubernetes-service'))
})

test('the expected masters must be listed, and no others', async () => {
  const { verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })
  const found = async (expect: Expectations) =>
    findingsOf(await verify({ expect })).map(({ expected, remedy }) => [
      expected,
      shellLine(remedy, { kubectl: [], 'apiserver-bootstrap': [] }),
    ])
  assert.deepEqual(await found({ addresses: ['192.0.2.2', '192.0.2.1'], masters: 2 }), [])
  assert.deepEqual(await found({ masters: 3 }), [['lists 3 addresses', 'apiserver-bootstrap masters']])
  assert.deepEqual(await found({ addresses: ['192.0.2.1', '192.0.2.3'] }), [
    [
      'lists 192.0.2.3',
      '# on the master that should be listed: is its API server ready, is its sidecar running, and does it advertise 192.0.2.3? Its log says why it is not listed',
    ],
    ['does not list 192.0.2.2', 'apiserver-bootstrap masters evict 192.0.2.2 --yes'],
  ])
  assert.ok(!(await verify()).results.some(({ id }) => id === 'expected-masters'))
})

test('a check skipped for a missing object is run when the object appears', async () => {
  const { api, time, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { metadata, ...rest } = await api.get(endpoints, kubernetes)
  await api.delete(endpoints, kubernetes)
  const slice = await api.get(endpointSlices, kubernetes)
  await api.update(endpointSlices, { ...slice, endpoints: [{ addresses: ['192.0.2.66'] }] })
  const only = ['kubernetes-endpoints', 'kubernetes-endpointslice'] as const
  time
    .view()
    .schedule(
      100,
      () => void api.create(endpoints, { ...rest, metadata: { ...kubernetes, labels: metadata?.labels ?? {} } }),
    )
  const { results } = await verify({ only, confirmAfterMs: 500 })
  assert.deepEqual(
    results.map(({ status }) => status),
    ['held', 'failed'],
  )
})

test('a failure first seen after a skip counts only if the next read confirms it', async () => {
  const { api, time, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { metadata, ...rest } = await api.get(endpoints, kubernetes)
  await api.delete(endpoints, kubernetes)
  const slice = await api.get(endpointSlices, kubernetes)
  await api.update(endpointSlices, { ...slice, endpoints: [{ addresses: ['192.0.2.66'] }] })
  const after = (ms: number, write: () => Promise<unknown>) => time.view().schedule(ms, () => void write())
  after(100, () => api.create(endpoints, { ...rest, metadata: { ...kubernetes, labels: metadata?.labels ?? {} } }))
  after(700, async () =>
    api.update(endpointSlices, { ...(await api.get(endpointSlices, kubernetes)), endpoints: slice.endpoints ?? [] }),
  )
  const only = ['kubernetes-endpoints', 'kubernetes-endpointslice'] as const
  const { results } = await verify({ only, confirmAfterMs: 500 })
  assert.deepEqual(
    results.map(({ status }) => status),
    ['held', 'held'],
  )
})

test('verifyUntil waits for a cluster to recover, up to waitMs', async () => {
  const { api, time, verify, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const clock = time.view()
  const only = ['kubernetes-endpoints'] as const
  const { metadata, ...rest } = await api.get(endpoints, kubernetes)
  await api.delete(endpoints, kubernetes)
  clock.schedule(
    5_000,
    () => void api.create(endpoints, { ...rest, metadata: { ...kubernetes, labels: metadata?.labels ?? {} } }),
  )
  const lines: string[] = []
  const options = { source: { api }, clock, only, confirmAfterMs: 0, signal: new AbortController().signal }
  const onProgress = (line: string): void => void lines.push(line)
  const short = await settle(verifyUntil({ ...options, waitMs: 2_000, onProgress }))
  assert.ok(!short.holds)
  const long = await settle(verifyUntil({ ...options, waitMs: 10_000, onProgress }))
  assert.ok(long.holds)
  assert.deepEqual(lines, ['waiting for kubernetes-endpoints', 'waiting for kubernetes-endpoints'])
  assert.ok((await verify({ only })).holds)
})

test('an interrupted wait returns the last report, or rejects if no attempt gave one', async () => {
  const { api, time, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  await api.delete(endpoints, kubernetes)
  const clock = time.view()
  const until = (api: KubeApi, abortAfterMs: number) => {
    const stop = new AbortController()
    clock.schedule(abortAfterMs, () => stop.abort(new Error('interrupted')))
    const options = { clock, only: ['kubernetes-endpoints'], confirmAfterMs: 500, waitMs: 60_000 } as const
    return settle(verifyUntil({ ...options, source: { api }, signal: stop.signal }))
  }
  // The interrupt comes while it sleeps, and in the middle of a second attempt.
  for (const abortAfterMs of [1_000, 1_700]) {
    assert.deepEqual(failedIn(await until(api, abortAfterMs)), ['kubernetes-endpoints'])
  }
  await assert.rejects(until(api, 200), /interrupted/, 'there is no report yet')
  const gone = rejecting(api, { endpoints: new KubeError('Unreachable', 'refused') })
  await assert.rejects(until(gone, 5_500), { code: 'Unreachable' })
})

test('verifyUntil waits for a user to receive permissions', async () => {
  const { api, time, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const clock = time.view()
  const fails: Record<string, KubeError> = { endpoints: new KubeError('Forbidden', 'list endpoints: forbidden') }
  clock.schedule(3_000, () => void delete fails.endpoints)
  const lines: string[] = []
  const report = await settle(
    verifyUntil({
      source: { api: rejecting(api, fails) },
      clock,
      only: ['kubernetes-endpoints'],
      confirmAfterMs: 0,
      waitMs: 10_000,
      onProgress: (line) => void lines.push(line),
      signal: new AbortController().signal,
    }),
  )
  assert.ok(report.results.every(({ status }) => status === 'held'))
  assert.deepEqual(lines, ['waiting for a check that can be decided'])
})

test('a dry run creates Services without storing them, and does not count as an allocated NodePort', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const before = (await api.list(services)).items.length
  const only = ['cluster-ip-available', 'node-port-available'] as const
  assert.deepEqual(
    (await verify({ only })).results.map((one) => one.status === 'held' && one.found),
    ['the server accepts a new Service; a dry run allocates nothing', '2767 of 2768 NodePorts in 30000-32767 are free'],
  )
  assert.equal((await api.list(services)).items.length, before)
  const refusing = (error: KubeError): KubeApi => ({ ...passedOn(api), create: () => Promise.reject(error) })
  const full = new KubeError('ServerError', 'create services: range is full', { httpStatus: 500 })
  const refused = await verify({ only, source: { api: refusing(full) } })
  assert.deepEqual(
    failedIn(refused),
    ['cluster-ip-available'],
    'a finding that follows from another one is not reported',
  )
  assert.equal(findingsOf(refused)[0]?.found, 'create services: range is full')
  const webhook = 'create services: Internal error occurred: failed calling webhook "a.example.com": timeout'
  const unanswered = new KubeError('ServerError', webhook, { httpStatus: 500 })
  const [broken] = findingsOf(await verify({ only, source: { api: refusing(unanswered) } }))
  assert.match(shellLine(broken?.remedy ?? [], { kubectl: [], 'apiserver-bootstrap': [] }), /^# .*webhook/)
  const forbidden = await verify({ only, source: { api: refusing(new KubeError('Forbidden', 'no right')) } })
  assert.deepEqual(
    forbidden.results.map(({ status }) => status),
    ['skipped', 'skipped'],
  )
  await assert.rejects(verify({ only, source: { api: refusing(new KubeError('Unreachable', 'gone')) } }))
})

test('an accepted dry run alone does not prove that a NodePort is available', async () => {
  const { api, etcd, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const judged = async (source: Partial<ClusterSource>) => {
    const [result] = (await verify({ only: ['node-port-available'], source: { api, ...source } })).results
    return result?.status === 'skipped' ? result.reason : result?.status
  }
  const listing = (name: string, ok: boolean): Readiness => ({
    probe: async () => ({ answered: true, ready: ok, checks: [{ name, ok }] }),
  })
  const hook = 'poststarthook/start-service-ip-repair-controllers'
  const undecided = 'a dry run is accepted, but allocates nothing: give --etcd-servers'
  assert.equal(await judged({}), undecided)
  assert.equal(await judged({ readiness: listing('etcd', true) }), undecided)
  assert.equal(await judged({ readiness: listing(hook, false) }), undecided)
  assert.equal(await judged({ readiness: listing(hook, true) }), 'held')
  assert.equal(await judged({ etcd }), 'held')
  assert.equal(await judged({ etcd: { ...etcd, prefix: '/elsewhere' } }), 'failed')
})

test('verifyCluster checks a cluster from a test', async () => {
  const { api, time, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const report = await settle(verifyCluster({ api, clock: time.view() }, { expect: { masters: 1 } }))
  assert.ok(report.holds)
  assert.ok(report.results.some(({ id, status }) => id === 'expected-masters' && status === 'held'))
})

test('a choice that leaves no check is refused at once', async () => {
  const { api, time, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const refused = (choice: Parameters<typeof verifyCluster>[1]) =>
    assert.rejects(settle(verifyCluster({ api, clock: time.view() }, choice)), {
      code: 'InvalidInput',
      message: 'only, skip: no check is left to run',
    })
  await refused({ only: [] })
  await refused({ skip: checkIds })
  await refused({ only: ['ip-addresses'], skip: ['ip-addresses'] })
})

test('on a control plane without Services, Pods and Nodes every check except system-namespaces is skipped with a reason', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'generic')
  const inner = inProcessTransport(createApiServer({ clock, random }))
  const isAbsent = ({ path }: ApiRequest): boolean =>
    /\/(services|endpoints|endpointslices|pods|nodes|servicecidrs|ipaddresses)(\/|$)/.test(path)
  const absent = { status: 404, headers: { 'content-type': 'text/plain' }, body: '404 page not found\n' }
  const transport: Transport = {
    send: async (request, signal) => (isAbsent(request) ? absent : inner.send(request, signal)),
    close: () => inner.close(),
  }
  const api = restKubeApi({ transport, clock, random })
  for (const name of ['default', 'kube-system', 'kube-public'])
    await api.create(namespaces, { metadata: { name } } as never)
  const ask = (): never => assert.fail('nothing is listed')
  const etcd = { kv: new MemoryEtcd({ clock }).client(), prefix: '/registry' }
  const source = { api, etcd, leaseStore: 'kubernetes', probe: { ask, targets: new Map() }, watchMs: 1_000 } as const
  const { results, holds } = await checkCluster({
    source,
    clock,
    expect: { masters: 1 },
    confirmAfterMs: 0,
    signal: new AbortController().signal,
  })
  assert.ok(holds)
  assert.equal(results.length, Object.keys(checkTexts).length)
  const held = results.filter(({ status }) => status !== 'skipped').map(({ id }) => id)
  assert.deepEqual(held, ['system-namespaces'])
  for (const result of results) {
    if (result.status !== 'skipped') continue
    assert.match(
      result.reason,
      /^(the server does not have it: |there are no |the time of the API servers is unknown)/,
      result.id,
    )
  }
})

test('a misspelled check in only or skip is rejected', async () => {
  const { api, time, settle } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  for (const choice of ['only', 'skip']) {
    const verified = settle(verifyCluster({ api, clock: time.view() }, { [choice]: ['kubernetes-endpoint'] }))
    await assert.rejects(verified, { name: 'TypeError', message: /no check "kubernetes-endpoint"/ })
  }
})
