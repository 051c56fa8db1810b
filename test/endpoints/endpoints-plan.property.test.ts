import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { countAddresses, planEndpoints, truncate } from '../../src/endpoints/endpoints-plan.ts'
import { repackSubsets } from '../../src/endpoints/subsets.ts'
import { addressFor, endpointPort, wantedSubsets } from '../../src/endpoints/wanted-subsets.ts'
import type { Endpoints, Pod, Service } from '../../src/kube/resources.ts'
import { findPort, isEndpoint, isPodReady } from '../../src/workloads/pod-rules.ts'
import type { EndpointSubset } from '../../src/workloads/subsets.ts'

const uid = fc.integer({ min: 0, max: 12 })

const address = uid.map((n) => ({ ip: `192.0.2.${n % 7}`, targetRef: { kind: 'Pod', uid: `uid-${n}` } }))
const port = fc.record(
  {
    name: fc.constantFrom('', 'http', 'metrics'),
    port: fc.constantFrom(80, 443, 8080),
    protocol: fc.constantFrom('TCP', 'UDP'),
  },
  { noNullPrototype: true },
)
const subset = fc.record(
  {
    addresses: fc.array(address, { maxLength: 5 }),
    notReadyAddresses: fc.array(address, { maxLength: 5 }),
    ports: fc.array(port, { maxLength: 4 }),
  },
  { requiredKeys: [], noNullPrototype: true },
)

const pod = (n: number): fc.Arbitrary<Pod> =>
  fc
    .record({
      ready: fc.constantFrom('True', 'False', 'Unknown'),
      phase: fc.constantFrom('Running', 'Running', 'Running', 'Failed'),
      deleted: fc.constantFrom(false, false, false, true),
      ips: fc.constantFrom(['4'], ['4', '6'], ['6', '4'], []),
      http: fc.constantFrom(undefined, 8080, 8081),
      metrics: fc.constantFrom(undefined, 9090, 8080),
      hostname: fc.constantFrom(undefined, `host-${n}`),
    })
    .map(({ ready, phase, deleted, ips, http, metrics, hostname }) => {
      const texts = ips.map((family) => (family === '4' ? `192.0.2.${n}` : `2001:db8::${n}`))
      const ports = [
        ...(http === undefined ? [] : [{ name: 'http', containerPort: http, protocol: 'TCP' }]),
        ...(metrics === undefined ? [] : [{ name: 'metrics', containerPort: metrics, protocol: 'TCP' }]),
      ]
      return {
        metadata: {
          namespace: 'ns',
          name: `pod-${n}`,
          uid: `uid-${n}`,
          ...(deleted ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
        },
        spec: {
          nodeName: `node-${n % 3}`,
          containers: [{ name: 'main', ports }],
          ...(hostname === undefined ? {} : { hostname, subdomain: 'foo' }),
        },
        status: {
          phase,
          conditions: [{ type: 'Ready', status: ready }],
          ...(texts[0] === undefined ? {} : { podIP: texts[0], podIPs: texts.map((ip) => ({ ip })) }),
        },
      }
    })

const pods = fc
  .integer({ min: 0, max: 8 })
  .chain((length) => fc.tuple(...Array.from({ length }, (_, n) => pod(n))) as fc.Arbitrary<readonly Pod[]>)

const servicePorts = fc.subarray([
  { name: 'a', port: 80, targetPort: 8080, protocol: 'TCP' },
  { name: 'b', port: 81, targetPort: 'http', protocol: 'TCP' },
  { name: 'c', port: 82, targetPort: 'metrics', protocol: 'TCP' },
  { name: 'd', port: 83, targetPort: 'http', protocol: 'TCP', appProtocol: 'http' },
])

const service: fc.Arbitrary<Service> = fc
  .record({
    ports: servicePorts,
    clusterIP: fc.constantFrom('None', '10.0.0.1', '2001:db8:1::1'),
    ipFamilies: fc.constantFrom(undefined, ['IPv4'], ['IPv6', 'IPv4']),
    publishNotReadyAddresses: fc.boolean(),
    labels: fc.constantFrom(undefined, { tier: 'front' }, { 'service.kubernetes.io/headless': 'x' }),
  })
  .map(({ labels, ports, ipFamilies, ...spec }) => ({
    metadata: {
      namespace: 'ns',
      name: 'foo',
      ...(labels === undefined ? {} : { labels: labels as Record<string, string> }),
    },
    spec: {
      ...spec,
      selector: { app: 'web' },
      ports: ports as NonNullable<NonNullable<Service['spec']>['ports']>,
      ...(ipFamilies === undefined ? {} : { ipFamilies }),
    },
  }))

test('packing packed subsets again changes nothing', () => {
  fc.assert(
    fc.property(fc.array(subset, { maxLength: 5 }), (subsets) => {
      const packed = repackSubsets(subsets)
      assert.deepEqual(repackSubsets(packed), packed)
    }),
    { numRuns: 2_000 },
  )
})

test('the order of subsets, addresses and ports does not affect the packed result', () => {
  const shuffled = fc
    .array(subset, { maxLength: 5 })
    .chain((subsets) => fc.tuple(fc.constant(subsets), fc.shuffledSubarray(subsets, { minLength: subsets.length })))
  fc.assert(
    fc.property(shuffled, ([subsets, others]) => assert.deepEqual(repackSubsets(others), repackSubsets(subsets))),
    { numRuns: 2_000 },
  )
})

test('the subsets of a Service equal the packed result of one subset for each Pod and port', () => {
  fc.assert(
    fc.property(service, pods, (service, pods) => {
      const { spec } = service
      const publishesNotReady = spec?.publishNotReadyAddresses === true
      const single: EndpointSubset[] = pods.flatMap((pod) => {
        const address = isEndpoint(pod, publishesNotReady) ? addressFor(service, pod) : undefined
        if (address === undefined) return []
        const listed =
          publishesNotReady || isPodReady(pod) ? { addresses: [address] } : { notReadyAddresses: [address] }
        if (spec?.ports?.length === 0) return spec.clusterIP === 'None' ? [listed] : []
        return (spec?.ports ?? []).flatMap((port) => {
          const number = findPort(pod, port)
          // Without `appProtocol`: for upstream, ports of one Service are the same also if they have one.
          const { appProtocol: _, ...plain } = port
          return number === undefined ? [] : [{ ...listed, ports: [endpointPort(plain, number)] }]
        })
      })
      const plain = {
        ...service,
        spec: { ...spec, ports: spec?.ports?.map(({ appProtocol: _, ...port }) => port) ?? [] },
      }
      assert.deepEqual(wantedSubsets(plain, pods), repackSubsets(single))
    }),
    { numRuns: 2_000 },
  )
})

test('the remembered order of an earlier call does not affect the subsets', () => {
  const twice = fc
    .integer({ min: 1, max: 8 })
    .chain((length) => fc.array(fc.tuple(...Array.from({ length }, (_, n) => pod(n))), { minLength: 2, maxLength: 4 }))
    .chain((rounds) => fc.tuple(...rounds.map((pods) => fc.shuffledSubarray(pods, { minLength: pods.length - 1 }))))
  fc.assert(
    fc.property(service, twice, (service, rounds) => {
      for (const pods of rounds) assert.deepEqual(wantedSubsets(service, pods), wantedSubsets({ ...service }, pods))
    }),
    { numRuns: 1_000 },
  )
})

test('a second plan after the first one does nothing, in whatever order Pods and stored subsets come', () => {
  fc.assert(
    fc.property(service, pods, fc.boolean(), (service, pods, reversed) => {
      const first = planEndpoints({ service, pods, current: undefined, triggerTime: '2026-01-01T00:00:00Z' })
      assert.equal(first.type, 'create')
      if (first.type !== 'create') return
      const current = reversed ? withReversedLists(first.endpoints) : first.endpoints
      const second = planEndpoints({ service, pods: [...pods].reverse(), current, triggerTime: undefined })
      assert.deepEqual(second, { type: 'none' })
    }),
    { numRuns: 2_000 },
  )
})

/** The same in another order; but not where an appProtocol makes subsets differ in upstream's eyes. */
function withReversedLists(endpoints: Endpoints): Endpoints {
  const subsets = [...(endpoints.subsets ?? [])].reverse().map(({ addresses, notReadyAddresses, ports }) => ({
    addresses: [...(addresses ?? [])].reverse(),
    notReadyAddresses: [...(notReadyAddresses ?? [])].reverse(),
    ports: [...(ports ?? [])].reverse(),
  }))
  return { ...endpoints, subsets }
}

test('subsets with too many addresses are truncated to 1,000, ready addresses first', () => {
  const sizes = fc.array(fc.record({ ready: fc.nat(900), notReady: fc.nat(900) }), { maxLength: 6 })
  fc.assert(
    fc.property(sizes, (sizes) => {
      const many = (length: number) => Array.from({ length }, (_, n) => ({ ip: String(n) }))
      const subsets = sizes.map(({ ready, notReady }) => ({
        addresses: many(ready),
        notReadyAddresses: many(notReady),
        ports: [{ port: 80 }],
      }))
      const ready = sizes.reduce((sum, size) => sum + size.ready, 0)
      const all = countAddresses(subsets)
      const cut = truncate(subsets)
      assert.equal(cut === undefined, all <= 1_000)
      if (cut === undefined) return
      assert.equal(countAddresses(cut), 1_000)
      const cutReady = cut.reduce((sum, { addresses }) => sum + (addresses?.length ?? 0), 0)
      assert.equal(cutReady, Math.min(ready, 1_000))
      assert.equal(cut.length, subsets.length)
    }),
    { numRuns: 300 },
  )
})
