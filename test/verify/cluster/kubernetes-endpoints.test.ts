import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice, Endpoints, Service } from '../../../src/kube/resources.ts'
import type { InspectedLease } from '../../../src/kubernetes-service/masters/inspection.ts'
import { shellLine, type Verdict } from '../../../src/verify/cluster/finding.ts'
import {
  isSecondSlice,
  judgeEndpoints,
  judgeSlice,
  relist,
  wantedEndpoints,
} from '../../../src/verify/cluster/kubernetes-endpoints.ts'
import type { CheckContext, Part } from '../../../src/verify/cluster/state.ts'

type Subset = NonNullable<Endpoints['subsets']>[number]

const https = (port = 6443) => [{ name: 'https', port, protocol: 'TCP' }]
const ipsOf = (ips: readonly string[]) => ips.map((ip) => ({ ip }))
const [A, B] = ['192.0.2.1', '192.0.2.2'] as const
const LABEL = 'endpointslice.kubernetes.io/skip-mirror'
const SERVICE_LABEL = { 'kubernetes.io/service-name': 'kubernetes' }

function endpointsWith(subsets: readonly Partial<Subset>[], label: string | undefined = 'true'): Endpoints {
  const labels = label === '' ? {} : { [LABEL]: label }
  return { metadata: { name: 'kubernetes', namespace: 'default', labels }, subsets } as Endpoints
}

/** Correct Endpoints. */
const endpointsOf = (...ips: readonly string[]): Endpoints => endpointsWith([{ addresses: ipsOf(ips), ports: https() }])

/** A correct slice, except for `more`. */
function sliceOf(
  ips: readonly string[],
  more: object = {},
  name = 'kubernetes',
  labels: object = SERVICE_LABEL,
): EndpointSlice {
  return {
    metadata: { name, namespace: 'default', labels },
    addressType: 'IPv4',
    endpoints: ips.map((ip) => ({ addresses: [ip], conditions: { ready: true } })),
    ports: https(),
    ...more,
  } as EndpointSlice
}

interface Given {
  readonly endpoints?: Endpoints | undefined
  readonly slices?: readonly EndpointSlice[]
  readonly service?: Part<Service | undefined>
  /** The addresses with a lease. */
  readonly leased?: readonly string[]
}

const service = { spec: { ports: [{ port: 443, targetPort: 6443 }] } } as unknown as Service

function contextOf({ endpoints, slices = [], service: given, leased }: Given): CheckContext {
  const leases = (leased ?? []).map((address) => ({
    id: address,
    address,
    holders: [],
    life: { type: 'ends', leftMs: 10_000, ttlMs: 15_000 },
    leased: true,
    odd: [],
    revision: '1',
  })) as unknown as readonly InspectedLease[]
  return {
    state: {
      kubernetesEndpoints: { type: 'read', value: endpoints },
      kubernetesSlices: { type: 'read', value: slices },
      ...(given && { kubernetesService: given }),
      ...(leased && { masterLeases: { type: 'read', value: { store: 'kubernetes', leases } } }),
    },
    expect: {},
    nowMs: 0,
  }
}

const byEndpoints = (given: Given): Verdict =>
  judgeEndpoints({ kubernetesEndpoints: given.endpoints }, contextOf(given))

const bySlices = ({ slices = [], ...given }: Given): Verdict =>
  judgeSlice({ kubernetesSlices: slices, kubernetesEndpoints: given.endpoints }, contextOf({ slices, ...given }))

/** What each finding expected and found. */
function findings(verdict: Verdict): readonly (readonly [string, string])[] {
  assert.ok(verdict.status === 'failed', JSON.stringify(verdict))
  return verdict.findings.map(({ expected, found }) => [expected, found] as const)
}

function remedies(verdict: Verdict): readonly string[] {
  assert.ok(verdict.status === 'failed', JSON.stringify(verdict))
  return verdict.findings.map(({ remedy }) => shellLine(remedy, { kubectl: [], 'apiserver-bootstrap': [] }))
}

const patched = (plural: string, patch: object): string =>
  `kubectl patch ${plural} kubernetes --namespace=default --type=merge '--patch=${JSON.stringify(patch)}'`

test('Endpoints that list usable addresses once at one port hold', () => {
  assert.deepEqual(byEndpoints({ endpoints: endpointsOf(A, B) }), {
    status: 'held',
    found: `${A}, ${B} at port https 6443/TCP`,
  })
})

test('missing Endpoints are reported, unless the Service is known to be missing too', () => {
  const slices = [sliceOf([A])]
  for (const present of [
    { type: 'read', value: service },
    { type: 'unread', reason: 'Forbidden' },
    undefined,
  ] as const) {
    const verdict = byEndpoints({ slices, ...(present && { service: present }) })
    assert.deepEqual(findings(verdict), [['exists', 'missing']])
    assert.match(remedies(verdict)[0] ?? '', /^printf %s '\{.*"kind":"Endpoints".*"192.0.2.1".*\| kubectl create/)
  }
  assert.equal(byEndpoints({ slices, service: { type: 'read', value: undefined } }).status, 'skipped')
  assert.match(remedies(byEndpoints({}))[0] ?? '', /^# run apiserver-bootstrap beside an API server/)
})

test('each defect of the Endpoints that misleads clients gives one finding', () => {
  const subset = { addresses: ipsOf([A]), ports: https() }
  const slices = [sliceOf([A])]
  const given = (subsets: readonly Partial<Subset>[], label?: string): Given => ({
    endpoints: endpointsWith(subsets, label),
    slices,
  })
  for (const [one, expected] of [
    [given([]), ['at least one address', 'no address']],
    [given([{ ports: https() }]), ['at least one address', 'no address']],
    [given([{ ports: https() }, { ports: https() }]), ['at least one address', 'no address']],
    [given([subset, { ...subset, addresses: ipsOf([B]) }]), ['one subset', '2 subsets']],
    [given([{ ...subset, addresses: ipsOf([A, '127.0.0.1']) }]), ['addresses that clients can reach', '127.0.0.1']],
    [given([{ ...subset, addresses: ipsOf([A, B, B]) }]), ['each address once', `${B} more than once`]],
    [given([{ ...subset, notReadyAddresses: ipsOf([B]) }]), ['no notReadyAddresses', `not ready: ${B}`]],
    [given([subset], 'false'), [`label ${LABEL}=true`, 'no such label, so the Endpoints are mirrored too']],
    [given([subset], ''), [`label ${LABEL}=true`, 'no such label, so the Endpoints are mirrored too']],
  ] as const) {
    assert.deepEqual(findings(byEndpoints(one)), [expected])
  }
})

test('Endpoints without a usable address are compared with the known port', () => {
  const found = (port: number) => {
    const endpoints = endpointsWith([{ addresses: ipsOf(['127.0.0.1']), ports: https(port) }])
    const slices = [sliceOf(['127.0.0.1'])]
    return findings(byEndpoints({ endpoints, slices, service: { type: 'read', value: service } }))
  }
  const unusable = ['addresses that clients can reach', '127.0.0.1']
  assert.deepEqual(found(6443), [unusable])
  assert.deepEqual(found(7443), [unusable, ['port https 6443/TCP', 'port https 7443/TCP']])
})

test('if no port of the API servers is known, ports are not compared, but Endpoints need one', () => {
  const empty = { addresses: ipsOf([A]) }
  assert.deepEqual(findings(byEndpoints({ endpoints: endpointsWith([empty, { ...empty, ports: https() }]) })), [
    ['one subset', '2 subsets'],
    ['each address once', `${A} more than once`],
  ])
  assert.deepEqual(findings(byEndpoints({ endpoints: endpointsWith([empty]) })), [['a port', 'no port']])
})

test('the first subset with ports other than expected is reported; a subset without addresses has no port finding', () => {
  const read = { type: 'read', value: service } as const
  const wrong = { addresses: ipsOf([B]), ports: https(7443) }
  const right = { addresses: ipsOf([A]), ports: https() }
  const slices = [sliceOf([A])]
  assert.deepEqual(findings(byEndpoints({ endpoints: endpointsWith([wrong]), slices, service: read })), [
    ['port https 6443/TCP', 'port https 7443/TCP'],
  ])
  assert.deepEqual(findings(byEndpoints({ endpoints: endpointsWith([right, wrong]), slices, service: read })), [
    ['one subset', '2 subsets'],
    ['port https 6443/TCP', 'port https 7443/TCP'],
  ])
  assert.deepEqual(
    findings(byEndpoints({ endpoints: endpointsWith([{ ports: https(7443) }]), slices, service: read })),
    [['at least one address', 'no address']],
  )
})

test('the repair preserves usable addresses and their details, and uses those of the slice only if none is left', () => {
  const node = { ip: A, nodeName: 'node-a' }
  const damaged = endpointsWith([{ addresses: [node, { ip: A }, { ip: '0.0.0.0' }], ports: https() }], '')
  const slices = [sliceOf([B, '127.0.0.1'])]
  const repaired = (given: Given) => remedies(byEndpoints(given))[0]
  const patch = (addresses: readonly object[]) =>
    patched('endpoints', { metadata: { labels: { [LABEL]: 'true' } }, subsets: [{ addresses, ports: https() }] })
  assert.equal(repaired({ endpoints: damaged, slices }), patch([{ ip: A }]))
  const twice = endpointsWith([{ addresses: [{ ip: B }, node], ports: https() }], '')
  assert.equal(repaired({ endpoints: twice, slices }), patch([{ ip: B }, node]))
  assert.equal(repaired({ endpoints: endpointsWith([{ addresses: ipsOf(['0.0.0.0']) }]), slices }), patch([{ ip: B }]))
  assert.match(repaired({ endpoints: endpointsWith([]) }) ?? '', /^# run apiserver-bootstrap beside an API server/)
})

test('one repair lists a live master among the notReadyAddresses, in the slice too, and drops the others', () => {
  const C = '192.0.2.3'
  const repaired = (addresses: readonly string[], ...slices: readonly EndpointSlice[]) => {
    const subset = { addresses: ipsOf(addresses), notReadyAddresses: ipsOf([B, C]), ports: https() }
    return remedies(byEndpoints({ endpoints: endpointsWith([subset]), slices, leased: [A, B] }))[0]
  }
  const patch = patched('endpoints', {
    metadata: { labels: { [LABEL]: 'true' } },
    subsets: [{ addresses: ipsOf([A, B]), ports: https() }],
  })
  const both = `${patch} && ${patched('endpointslices', { endpoints: sliceOf([A, B]).endpoints })}`
  assert.equal(repaired([A], sliceOf([A])), both)
  assert.equal(repaired([], sliceOf([A])), both)
  assert.equal(repaired([A]), patch)
  assert.match(repaired([A, B], sliceOf([A, B])) ?? '', /^kubectl patch endpoints [^&]*$/)
})

test('wanted Endpoints need an address and a port', () => {
  assert.deepEqual(wantedEndpoints(contextOf({ endpoints: endpointsOf(A) })), {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'kubernetes', namespace: 'default', labels: { [LABEL]: 'true' } },
    subsets: [{ addresses: [{ ip: A }], ports: https() }],
  })
  assert.equal(wantedEndpoints(contextOf({ endpoints: endpointsWith([{ addresses: ipsOf([A]) }]) })), undefined)
  assert.equal(wantedEndpoints(contextOf({ slices: [sliceOf([])] })), undefined)
  assert.equal(wantedEndpoints(contextOf({ slices: [sliceOf(['127.0.0.1'])] })), undefined)
})

test('relist writes both objects, preserves the details of known addresses, and never lists nobody', () => {
  const endpoints = endpointsWith([{ addresses: [{ ip: A, nodeName: 'node-a' }], ports: https() }])
  const [first, second, ...more] = relist([A, B], contextOf({ endpoints }))
  assert.deepEqual(more, [])
  const line = (command: typeof first): string =>
    shellLine(command === undefined ? [] : [command], { kubectl: [], 'apiserver-bootstrap': [] })
  const addresses = [{ ip: A, nodeName: 'node-a' }, { ip: B }]
  assert.equal(line(first), patched('endpoints', { subsets: [{ addresses, ports: https() }] }))
  const conditions = { ready: true }
  assert.equal(
    line(second),
    patched('endpointslices', {
      endpoints: [
        { addresses: [A], conditions, nodeName: 'node-a' },
        { addresses: [B], conditions },
      ],
    }),
  )
  for (const [ips, given] of [
    [[], { endpoints }],
    [[A], {}],
  ] as const) {
    const commands = relist(ips, contextOf(given))
    assert.deepEqual(
      commands.map(({ tool }) => tool),
      ['by-hand'],
    )
  }
})

test('a slice equal to the Endpoints holds; without Endpoint addresses the check is skipped', () => {
  assert.deepEqual(bySlices({ endpoints: endpointsOf(A, B), slices: [sliceOf([A, B])] }), {
    status: 'held',
    found: `${A}, ${B}`,
  })
  assert.equal(bySlices({ slices: [sliceOf([A])] }).status, 'skipped')
  assert.equal(bySlices({ endpoints: endpointsWith([]) }).status, 'skipped')
})

test('a missing slice is created; a slice of the wrong address type is deleted and created', () => {
  const missing = bySlices({ endpoints: endpointsOf(A) })
  assert.deepEqual(findings(missing), [['exists', 'missing']])
  assert.match(remedies(missing)[0] ?? '', /^printf .* \| kubectl create --filename=-$/)
  const other = bySlices({ endpoints: endpointsOf(A), slices: [sliceOf([A], { addressType: 'IPv6' })] })
  assert.deepEqual(findings(other), [['IPv4', 'IPv6']])
  assert.match(
    remedies(other)[0] ?? '',
    /^kubectl delete endpointslices kubernetes --namespace=default && printf .* \| kubectl create --filename=-$/,
  )
})

test('wrong labels, ports and conditions of a slice are corrected in one patch, which removes foreign labels', () => {
  const wrong = sliceOf([A], {
    ports: https(7443),
    endpoints: [{ addresses: [A], conditions: { ready: true, serving: true } }],
  })
  const labels = { ...SERVICE_LABEL, foreign: 'label' }
  const read = { type: 'read', value: service } as const
  const slices = [{ ...wrong, metadata: { ...wrong.metadata, labels } }]
  const verdict = bySlices({ endpoints: endpointsOf(A), slices, service: read })
  assert.deepEqual(findings(verdict), [
    ['only the label kubernetes.io/service-name', JSON.stringify(labels)],
    [`lists ${A}, as the Endpoints`, `lists ${A} with {"ready":true,"serving":true}`],
    ['port https 6443/TCP', 'port https 7443/TCP'],
  ])
  const patch = patched('endpointslices', {
    metadata: { labels: { 'kubernetes.io/service-name': 'kubernetes', foreign: null } },
    endpoints: [{ addresses: [A], conditions: { ready: true } }],
    ports: https(),
  })
  assert.deepEqual(remedies(verdict), [patch, patch, patch])
})

test('if Endpoints and slice list different addresses the leases decide; if only the order differs or it is empty, the Endpoints', () => {
  const endpoints = endpointsOf(A, B)
  const repaired = (ips: readonly string[], leased?: readonly string[]): string => {
    const verdict = bySlices({ endpoints, slices: [sliceOf(ips)], ...(leased && { leased }) })
    assert.equal(findings(verdict)[0]?.[0], `lists ${A}, ${B}, as the Endpoints`)
    return remedies(verdict)[0] ?? ''
  }
  assert.match(
    repaired(['192.0.2.3'], ['192.0.2.3']),
    /^kubectl patch endpoints .*\[\{"ip":"192.0.2.3"\}\].* && kubectl patch endpointslices /,
  )
  assert.match(repaired([A]), /^# cannot decide/)
  assert.match(repaired([A], []), /^# cannot decide/)
  for (const ips of [[B, A], []])
    assert.match(repaired(ips, [A]), /^kubectl patch endpointslices .*192.0.2.1.*192.0.2.2/)
})

test('a slice without endpoints is reported as listing nothing', () => {
  assert.deepEqual(findings(bySlices({ endpoints: endpointsOf(A), slices: [sliceOf([])] })), [
    [`lists ${A}, as the Endpoints`, 'lists nothing'],
  ])
})

test('the slice of the second family must list usable addresses at the same port; unrelated slices are not checked', () => {
  const six = (ips: readonly string[], more: object = {}) =>
    sliceOf(ips, { addressType: 'IPv6', ...more }, 'kubernetes-ipv6')
  const judge = (...slices: readonly EndpointSlice[]) =>
    bySlices({ endpoints: endpointsOf(A), slices: [sliceOf(['10.0.0.1'], {}, 'other'), sliceOf([A]), ...slices] })
  assert.deepEqual(judge(six(['2001:db8::1'])), { status: 'held', found: `${A}; 2001:db8::1` })
  assert.deepEqual(judge(), { status: 'held', found: A })
  assert.deepEqual(findings(judge(six([]))), [['at least one address', 'no address']])
  const bad = judge(six(['2001:db8::1', '::1'], { ports: https(7443) }))
  assert.deepEqual(findings(bad), [
    ['addresses that clients can reach', '::1'],
    ['port https 6443/TCP', 'port https 7443/TCP'],
  ])
  assert.equal(remedies(bad)[0], 'kubectl delete endpointslices kubernetes-ipv6 --namespace=default')
  const both = bySlices({ endpoints: endpointsOf(A), slices: [six([])] })
  assert.deepEqual(findings(both), [
    ['exists', 'missing'],
    ['at least one address', 'no address'],
  ])
})

test('isSecondSlice recognizes the slice of the second family by its name', () => {
  const names = ['kubernetes-ipv4', 'kubernetes-ipv6', 'kubernetes', 'kubernetes-ipv5', undefined]
  assert.deepEqual(names.map(isSecondSlice), [true, true, false, false, false])
})
