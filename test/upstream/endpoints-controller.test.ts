import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { planEndpoints, truncate } from '../../src/endpoints/endpoints-plan.ts'
import { repackSubsets, sameSubsets } from '../../src/endpoints/subsets.ts'
import { addressFor, endpointPort } from '../../src/endpoints/wanted-subsets.ts'
import type { Endpoints, Pod, Service } from '../../src/kube/resources.ts'
import { TriggerTimes } from '../../src/workloads/pod-rules.ts'
import {
  endpointsController,
  endpointsRepack,
  type OverCapacityCase,
  type SyncCase,
} from './endpoints-controller-tables.ts'
import type { StoredObject } from './tables.ts'

// The pure decisions of upstream's controller in one sync. Tests that take time or need a server are in
// endpoints-controller-runs.test.ts.

const { tables, file } = endpointsController

for (const table of ['sync', 'externalName', 'addresses'] as const) {
  describe(`${file}, ${table}`, () => {
    for (const one of tables[table]) {
      test(one.name, () => assert.deepEqual(sent(writesOf(one)), one.expect.writes))
    }
  })
}

/** The value as JSON carries it: without undefined fields. */
function sent<T>(value: T): T {
  return JSON.parse(JSON.stringify(value))
}

/** The writes that the sync of a case requests, in the form of the calls of upstream's client. */
function writesOf({ given, call }: SyncCase): readonly unknown[] {
  const [namespace, name] = call.key.split('/')
  const [service] = objectsOf<Service>(given.objects, 'Service')
  const [current] = objectsOf<Endpoints>(given.objects, 'Endpoints')
  const pods = objectsOf<Pod>(given.objects, 'Pod').filter((pod) => service !== undefined && selects(service, pod))
  const triggerTime = service === undefined ? undefined : new TriggerTimes().compute(service, pods)
  const action = planEndpoints({ service, pods, current, triggerTime })
  switch (action.type) {
    case 'none':
      return []
    case 'delete':
      return [{ verb: 'delete', resource: 'endpoints', ref: { namespace, name } }]
    default: {
      const { apiVersion, kind, metadata, ...rest } = action.endpoints
      const { namespace: _path, ...unplaced } = metadata ?? {}
      // Upstream's client takes the namespace of a created object from the call.
      const named = action.type === 'create' ? unplaced : metadata
      return [{ verb: action.type, resource: 'endpoints', object: { apiVersion, kind, metadata: named, ...rest } }]
    }
  }
}

function objectsOf<T>(objects: readonly StoredObject[], kind: string): readonly T[] {
  return objects.filter((object) => object.kind === kind) as unknown as readonly T[]
}

function selects({ metadata, spec }: Service, pod: Pod): boolean {
  const { namespace, labels = {} } = pod.metadata ?? {}
  const selector = Object.entries(spec?.selector ?? {})
  return namespace === metadata?.namespace && selector.every(([key, value]) => labels[key] === value)
}

describe(`${file}, podToEndpointAddress`, () => {
  for (const { name, given, expect } of tables.podToEndpointAddress) {
    test(name, () => {
      const [service, pod] = given.objects
      const address = addressFor(service, pod)
      if (expect.error === true) {
        assert.equal(address, undefined)
        return
      }
      const { namespace, uid } = pod.metadata ?? {}
      assert.equal(address?.ip.includes(':'), expect.family === 'IPv6')
      assert.doesNotMatch(address?.ip ?? '', /^0/)
      assert.deepEqual(sent(address), {
        ip: address?.ip,
        nodeName: pod.spec?.nodeName ?? '',
        targetRef: { kind: 'Pod', namespace, name: pod.metadata?.name, ...(uid === undefined ? {} : { uid }) },
      })
    })
  }
})

describe(`${file}, overCapacity`, () => {
  for (const one of tables.overCapacity) {
    test(one.name, () => {
      const { service, pods, current } = overCapacityObjects(one)
      const action = planEndpoints({ service, pods, current })
      const after = action.type === 'update' ? action.endpoints : current
      const counted = countsOf(after.subsets ?? [])
      assert.deepEqual(counted.ready.reduce(sum, 0), one.expect.ready)
      assert.deepEqual(counted.notReady.reduce(sum, 0), one.expect.notReady)
      const annotation = after.metadata?.annotations?.['endpoints.kubernetes.io/over-capacity']
      assert.equal(annotation, one.expect.truncated ? 'truncated' : undefined)
    })
  }
})

function overCapacityObjects({ given }: OverCapacityCase): {
  readonly service: Service
  readonly pods: readonly Pod[]
  readonly current: Endpoints
} {
  const namespace = 'test'
  const ports = [{ port: 80 }]
  const service = {
    metadata: { name: 'foo', namespace },
    spec: { selector: { foo: 'bar' }, ports, ipFamilies: ['IPv4'] },
  }
  const pods = Array.from({ length: given.ready + given.notReady }, (_, index) => {
    const podIP = `1.2.${3 + Math.floor((4 + index) / 256)}.${(4 + index) % 256}`
    const status = index < given.ready ? 'True' : 'False'
    return {
      metadata: { name: `pod${index}`, namespace, labels: { foo: 'bar' } },
      spec: { containers: [] },
      status: { podIP, podIPs: [{ ip: podIP }], conditions: [{ type: 'Ready', status }] },
    }
  })
  const addresses = pods.slice(0, given.existing).flatMap((pod) => addressFor(service, pod) ?? [])
  const { annotation } = given
  const annotations = annotation === undefined ? {} : { 'endpoints.kubernetes.io/over-capacity': annotation }
  const metadata = { name: 'foo', namespace, resourceVersion: '1', annotations }
  return { service, pods, current: { metadata, subsets: [{ addresses }] } }
}

describe(`${file}, truncate`, () => {
  for (const { name, given, expect } of tables.truncate) {
    test(name, () => {
      const subsets = given.ready.map((ready, index) => ({
        addresses: Array.from({ length: ready }, () => ({ ip: '' })),
        notReadyAddresses: Array.from({ length: given.notReady[index] ?? 0 }, () => ({ ip: '' })),
      }))
      assert.deepEqual(countsOf(truncate(subsets) ?? subsets), expect)
    })
  }
})

function countsOf(subsets: NonNullable<Endpoints['subsets']>) {
  return {
    ready: subsets.map(({ addresses }) => addresses?.length ?? 0),
    notReady: subsets.map(({ notReadyAddresses }) => notReadyAddresses?.length ?? 0),
  }
}

function sum(a: number, b: number): number {
  return a + b
}

describe(`${file}, sameSubsets`, () => {
  for (const { name, given, expect } of tables.sameSubsets) {
    test(name, () => assert.equal(sameSubsets(given.a, given.b), expect.same))
  }
})

describe(`${file}, portFromServicePort`, () => {
  for (const { name, given, expect } of tables.portFromServicePort) {
    test(name, () => assert.deepEqual(endpointPort(given.port, given.number), expect))
  }
})

for (const [table, cases] of Object.entries(endpointsRepack.tables)) {
  describe(`${endpointsRepack.file}, ${table}`, () => {
    for (const { name, given, expect } of cases) {
      test(name, () => assert.deepEqual(repackSubsets(given.subsets), expect.subsets))
    }
  })
}
