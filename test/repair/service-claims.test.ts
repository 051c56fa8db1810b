import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Service } from '../../src/kube/resources.ts'
import { clusterIpsOf, nodePortsOf, trimService } from '../../src/repair/service-claims.ts'
import { someServices } from './bitmap/samples.ts'

test('what is dropped of a Service changes nothing of what it holds', () => {
  fc.assert(
    fc.property(someServices, (services) => {
      for (const service of services) {
        const kept = trimService(service)
        assert.deepEqual(nodePortsOf(kept), nodePortsOf(service))
        assert.deepEqual(clusterIpsOf(kept), clusterIpsOf(service))
        assert.deepEqual(trimService(kept), kept)
      }
    }),
  )
})

test('who a Service is stays known, and what else it has goes', () => {
  const metadata = {
    ...{ namespace: 'default', name: 'web', uid: 'u', resourceVersion: '7' },
    creationTimestamp: '2026-01-01T00:00:00Z',
  }
  const service = {
    metadata: { ...metadata, labels: { app: 'web' }, managedFields: [{}] },
    spec: { type: 'ClusterIP', selector: { app: 'web' }, clusterIP: 'None', ports: [{ port: 80 }] },
    status: { loadBalancer: {} },
  } as unknown as Service
  const kept = trimService(service)
  assert.deepEqual(kept.metadata, metadata)
  assert.deepEqual(Object.keys(kept).sort(), ['metadata', 'spec'])
  assert.deepEqual(kept.spec?.ports, [])
  assert.ok(!('selector' in (kept.spec ?? {})))
})

test('a Service that has no clusterIPs yet holds its clusterIP', () => {
  assert.deepEqual(clusterIpsOf({ spec: { clusterIP: '10.96.0.9' } } as Service), ['10.96.0.9'])
  assert.deepEqual(clusterIpsOf({ spec: { clusterIP: 'None', clusterIPs: ['None'] } } as Service), [])
  assert.deepEqual(clusterIpsOf({} as Service), [])
})

test('a port without a NodePort, or with 0 for one, holds none', () => {
  const ports = [{ port: 80, nodePort: 0 }, { port: 81 }, { port: 82, nodePort: 1 }]
  assert.deepEqual(nodePortsOf({ spec: { ports, healthCheckNodePort: 0 } } as Service), [1])
})

test('a field that is null counts as one that is missing', () => {
  const none = { spec: { clusterIP: null, clusterIPs: null, healthCheckNodePort: null, ports: null } }
  const numberless = { spec: { ...none.spec, ports: [{ port: 80, nodePort: null, protocol: null }] } }
  for (const given of [none, numberless] as unknown as Service[]) {
    for (const service of [given, trimService(given)]) {
      assert.deepEqual(clusterIpsOf(service), [])
      assert.deepEqual(nodePortsOf(service), [])
    }
  }
})
