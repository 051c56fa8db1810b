import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isBeingDeleted, type Pod, type Service } from '../../src/kube/resources.ts'
import {
  findPort,
  findPorts,
  hasClusterIp,
  hasHostname,
  isEndpoint,
  isEndpointChange,
  isPodReady,
  podAddresses,
  portMappings,
  refuseManyPortPairs,
  type ServicePort,
  TriggerTimes,
} from '../../src/workloads/pod-rules.ts'

const podWith = (...ips: readonly string[]): Pod => ({ status: { podIPs: ips.map((ip) => ({ ip })) } })

test('a Pod is ready only by its Ready condition', () => {
  const conditions = (...statuses: readonly string[]): Pod => ({
    status: { conditions: statuses.map((status, index) => ({ type: index === 0 ? 'Initialized' : 'Ready', status })) },
  })
  assert.equal(isPodReady({}), false)
  assert.equal(isPodReady(conditions('True')), false)
  assert.equal(isPodReady(conditions('False', 'True')), true)
  // The first condition of a type counts.
  assert.equal(isPodReady(conditions('True', 'Unknown', 'True')), false)
})

test('a Pod without a status is no endpoint; one with podIP or podIPs is', () => {
  assert.equal(isEndpoint({}, true), false)
  assert.equal(isEndpoint({ status: { podIP: '192.0.2.1' } }, false), true)
  assert.equal(isEndpoint(podWith('192.0.2.1'), false), true)
})

test('a deletionTimestamp of null counts as absent', () => {
  const pod = { metadata: { deletionTimestamp: null }, ...podWith('192.0.2.1') } as unknown as Pod
  assert.equal(isBeingDeleted(pod), false)
  assert.equal(isEndpoint(pod, false), true)
})

test('a Pod has its hostname only for the Service that its subdomain names', () => {
  const service: Service = { metadata: { namespace: 'ns', name: 'db' } }
  const pod = (subdomain?: string): Pod => ({
    metadata: { namespace: 'ns' },
    spec: { containers: [], hostname: 'db-0', ...(subdomain === undefined ? {} : { subdomain }) },
  })
  assert.equal(hasHostname(pod('db'), service), true)
  assert.equal(hasHostname(pod(), service), false)
})

test('findPorts finds the same port numbers as findPort for each port alone', () => {
  const name = fc.constantFrom('a', 'b', 'c')
  const protocol = fc.constantFrom('TCP', 'UDP')
  const containerPorts = fc.array(fc.record({ name, protocol, containerPort: fc.integer({ min: 1, max: 9 }) }))
  const container = fc.record({ name, ports: containerPorts, restartPolicy: fc.constantFrom('Always', undefined) })
  const containers = fc.array(container, { maxLength: 3 })
  const target = fc.oneof(name, fc.integer({ min: 1, max: 9 }), fc.constant(undefined))
  const ports = fc.array(fc.record({ port: fc.constant(80), protocol, targetPort: target }), { maxLength: 9 })
  fc.assert(
    fc.property(containers, containers, ports, (containers, initContainers, ports) => {
      const pod = { spec: { containers, initContainers } } as Pod
      const wanted = ports as ServicePort[]
      assert.deepEqual(
        findPorts(pod, wanted),
        wanted.map((port) => findPort(pod, port)),
      )
    }),
  )
})

test('the mappings of two Pods are equal exactly if the Service has the same port numbers in both', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
  const protocol = fc.constantFrom('TCP', 'UDP')
  const containerPort = fc.integer({ min: 1, max: 2 })
  const containers = fc.array(fc.record({ name, ports: fc.array(fc.record({ name, protocol, containerPort })) }))
  const target = fc.oneof(name, fc.integer({ min: 1, max: 2 }), fc.constant(undefined))
  const ports = fc.array(fc.record({ port: fc.constant(80), protocol, targetPort: target }), { maxLength: 12 })
  fc.assert(
    fc.property(containers, containers, ports, (some, others, ports) => {
      const [a, b] = [some, others].map((containers) => ({ spec: { containers } }) as Pod) as [Pod, Pod]
      const mappingOf = portMappings(ports as ServicePort[])
      const numbers = [a, b].map((pod) => findPorts(pod, ports as ServicePort[]).join())
      assert.equal(mappingOf(a) === mappingOf(b), numbers[0] === numbers[1])
    }),
  )
})

test('ports of a Pod that a Service with many named ports does not use are no part of the mapping', () => {
  const ports = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, port: 1, protocol: 'TCP', targetPort: name }))
  const mappingOf = portMappings(ports as unknown as readonly ServicePort[])
  const podWith = (...names: readonly string[]): Pod => ({
    spec: { containers: [{ name: 'c', ports: names.map((name) => ({ name, protocol: 'TCP', containerPort: 1 })) }] },
  })
  assert.equal(mappingOf(podWith('e', 'a', 'z')), mappingOf(podWith('a', 'e')))
  assert.notEqual(mappingOf(podWith('a', 'e')), mappingOf(podWith('a', 'd')))
})

test('a Service is refused if its Pods have too many different numbers for too many ports', () => {
  const podWith = (containerPort: number, phase = 'Running'): Pod => ({
    spec: { containers: [{ name: 'a', ports: [{ name: 'web', protocol: 'TCP', containerPort }] }] },
    status: { phase, podIP: '192.0.2.1' },
  })
  const serviceWith = (count: number, targetPort: number | string): Service => {
    const ports = Array.from({ length: count }, (_, index) => ({ name: `p${index}`, port: index, protocol: 'TCP' }))
    const first = { ...ports[0], targetPort } as unknown as ServicePort
    return { metadata: { namespace: 'n', name: 's' }, spec: { ports: [first, ...ports.slice(1)] } }
  }
  const different = Array.from({ length: 11 }, (_, index) => podWith(index + 1))
  const same = Array.from({ length: 5_000 }, () => podWith(1))
  refuseManyPortPairs(serviceWith(5_000, 'web'), [...different.slice(0, 10), ...same, podWith(11, 'Failed')])
  refuseManyPortPairs(serviceWith(5_000, 80), [...different, ...same])
  assert.throws(() => refuseManyPortPairs(serviceWith(5_000, 'web'), different), {
    message:
      'Service n/s has 5000 ports, for which its Pods have 11 or more different sets of numbers: ' +
      'use fewer ports, or target ports that are numbers',
  })
})

test('a port without a targetPort is port 0, as upstream reads it, and a name is never taken for a number', () => {
  const pod: Pod = {
    spec: { containers: [{ name: 'a', ports: [{ name: '80', containerPort: 8080, protocol: 'TCP' }] }] },
  }
  assert.equal(findPort(pod, { port: 80, protocol: 'TCP' }), 0)
  assert.equal(findPort(pod, { port: 80, protocol: 'TCP', targetPort: '80' }), 8080)
  assert.equal(findPort(pod, { port: 80, protocol: 'UDP', targetPort: '80' }), undefined)
  assert.equal(findPort({}, { port: 80, protocol: 'TCP', targetPort: '80' }), undefined)
})

test('podAddresses returns the addresses of one family in the order of the Pod, in Go’s format', () => {
  const pod = podWith('2001:DB8::0001', '192.000.002.01', '::ffff:198.51.100.1', '2001:db8:0:0:1::', '192.0.2.2')
  assert.deepEqual(podAddresses(pod, 'IPv4'), ['192.0.2.1', '198.51.100.1', '192.0.2.2'])
  assert.deepEqual(podAddresses(pod, 'IPv6'), ['2001:db8::1', '2001:db8:0:0:1::'])
})

test('podAddresses leaves out invalid addresses', () => {
  const pod = {
    status: { podIPs: [{ ip: '' }, { ip: '192.0.2' }, {}, { ip: 'fe80::1%eth0' }, { ip: '192.0.2.1' }] },
  } as Pod
  assert.deepEqual(podAddresses(pod, 'IPv4'), ['192.0.2.1'])
  assert.deepEqual(podAddresses(pod, 'IPv6'), [])
  assert.deepEqual(podAddresses({ status: { podIP: '192.0.2.1' } }, 'IPv4'), [])
})

test('an endpoint counts as changed when its addresses swap, and always while the Pod is terminating', () => {
  assert.equal(isEndpointChange(podWith('192.0.2.1', '2001:db8::1'), podWith('192.0.2.1', '2001:db8::1')), false)
  assert.equal(isEndpointChange(podWith('192.0.2.1', '2001:db8::1'), podWith('2001:db8::1', '192.0.2.1')), true)
  const leaving: Pod = { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }
  assert.equal(isEndpointChange(leaving, leaving), true)
})

test('an unready Pod that ends is no longer an endpoint', () => {
  const running: Pod = { status: { phase: 'Running', podIP: '192.0.2.1', podIPs: [{ ip: '192.0.2.1' }] } }
  for (const phase of ['Failed', 'Succeeded']) {
    const ended: Pod = { status: { ...running.status, phase } }
    assert.deepEqual([isEndpoint(running, false), isEndpoint(ended, false)], [true, false])
    assert.equal(isEndpointChange(running, ended), true)
    assert.equal(isEndpointChange(ended, ended), false)
  }
})

test('a Service with None, an empty or no clusterIP has no ClusterIP', () => {
  const answers = [undefined, '', 'None', '192.0.2.1'].map((clusterIP) =>
    hasClusterIp(clusterIP === undefined ? {} : { spec: { clusterIP } }),
  )
  assert.deepEqual(answers, [false, false, false, true])
})

const service = (creationTimestamp?: string): Service => ({
  metadata: { namespace: 'ns', name: 'web', ...(creationTimestamp !== undefined && { creationTimestamp }) },
})
const pod = (name: string, lastTransitionTime?: string | null): Pod =>
  ({
    metadata: { namespace: 'ns', name },
    status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] },
  }) as Pod

const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`

test('a Pod whose condition has no time, or Go’s zero time, does not count as changed', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service(at(1)), []), at(1))
  const pods = [
    pod('a'),
    pod('b', null),
    pod('c', '0001-01-01T00:00:00Z'),
    pod('d', 'yesterday'),
    { metadata: { name: 'e' } },
  ]
  assert.equal(times.compute(service(at(1)), pods), undefined)
  assert.equal(times.compute(service(at(1)), [...pods, pod('f', at(5))]), at(5))
})

test('a Service without a creation time has no trigger time until a Pod changes', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service(), [pod('a', at(1))]), undefined)
  assert.equal(times.compute(service(), [pod('a', at(2))]), at(2))
})

test('a Pod whose time goes back has not changed, and later times are compared with that time', () => {
  const times = new TriggerTimes()
  times.compute(service(at(1)), [pod('a', at(9))])
  assert.equal(times.compute(service(at(1)), [pod('a', at(3))]), undefined)
  assert.equal(times.compute(service(at(1)), [pod('a', at(4))]), at(4))
})

test('a Service that was recreated unobserved counts as changed at its creation', () => {
  const times = new TriggerTimes()
  times.compute(service(at(1)), [])
  assert.equal(times.compute(service(at(7)), [pod('a', at(8))]), at(7))
})

test('times in other formats are compared as times and returned in Go’s format', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service('2026-01-01T01:00:01.250+01:00'), []), '2026-01-01T00:00:01.25Z')
  assert.equal(times.compute(service(at(1)), [pod('a', at(2)), pod('b', '2026-01-01T00:00:02.000Z')]), at(2))
  assert.equal(
    times.compute(service(at(1)), [pod('a', at(2)), pod('b', '2026-01-01T00:00:02.5Z')]),
    '2026-01-01T00:00:02.5Z',
  )
  assert.equal(times.compute(service(at(1)), [pod('a', at(2)), pod('b', at(2))]), undefined)
})

/** Upstream's tracker: each call stores all times anew. */
class Naive {
  #known: { readonly service: number; readonly pods: ReadonlyMap<string, number> } | undefined

  compute(created: number, pods: ReadonlyMap<string, number>): number | undefined {
    const known = this.#known
    this.#known = { service: created, pods }
    if (known === undefined) return created
    const changed = [...pods].filter(([name, time]) => time > (known.pods.get(name) ?? -1)).map(([, time]) => time)
    if (created > known.service) changed.push(created)
    return changed.length === 0 ? undefined : Math.min(...changed)
  }
}

test('in every history the trigger times equal those of a tracker that stores all times anew', () => {
  const second = fc.integer({ min: 0, max: 9 })
  const call = fc.record({
    created: second,
    pods: fc.uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), second), { selector: ([name]) => name }),
    forget: fc.integer({ min: 0, max: 9 }),
  })
  fc.assert(
    fc.property(fc.array(call, { maxLength: 12 }), (calls) => {
      const times = new TriggerTimes()
      let naive = new Naive()
      for (const { created, pods, forget } of calls) {
        if (forget === 0) {
          times.delete('ns/web')
          naive = new Naive()
        }
        const expected = naive.compute(created, new Map(pods))
        const ours = times.compute(
          service(at(created)),
          pods.map(([name, time]) => pod(name, at(time))),
        )
        assert.equal(ours, expected === undefined ? undefined : at(expected))
      }
    }),
    { numRuns: 500 },
  )
})
