import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Service } from '../../src/kube/resources.ts'
import { Store } from '../../src/kube/store.ts'
import { clusterIpsOf, nodePortsOf, trimService } from '../../src/repair/service-claims.ts'
import { someServices } from './bitmap/samples.ts'

test('trimming a Service does not change which ClusterIPs and NodePorts it holds', () => {
  fc.assert(
    fc.property(someServices, (services) => {
      for (const service of services) {
        const trimmed = trimService(service)
        assert.deepEqual(nodePortsOf(trimmed), nodePortsOf(service))
        assert.deepEqual(clusterIpsOf(trimmed), clusterIpsOf(service))
        assert.deepEqual(trimService(trimmed), trimmed)
      }
    }),
  )
})

test('trimming a Service preserves its identity and drops unused fields', () => {
  const metadata = {
    ...{ namespace: 'default', name: 'web', uid: 'u', resourceVersion: '7' },
    creationTimestamp: '2026-01-01T00:00:00Z',
  }
  const service = {
    metadata: { ...metadata, labels: { app: 'web' }, managedFields: [{}] },
    spec: { type: 'ClusterIP', selector: { app: 'web' }, clusterIP: 'None', ports: [{ port: 80 }] },
    status: { loadBalancer: {} },
  } as unknown as Service
  const trimmed = trimService(service)
  const { namespace, name, uid, resourceVersion, creationTimestamp, labels } = trimmed.metadata ?? {}
  assert.deepEqual({ namespace, name, uid, resourceVersion, creationTimestamp }, metadata)
  assert.equal(labels, undefined)
  assert.deepEqual(trimmed.spec, {
    type: 'ClusterIP',
    healthCheckNodePort: undefined,
    ports: [],
    clusterIP: 'None',
    clusterIPs: undefined,
  })
  assert.equal(trimmed.status, undefined)
})

test('a packed Service unpacks unchanged, and shares its type if it holds only ClusterIPs', () => {
  const { packing } = trimService
  const through = (service: Service): Service => {
    const { texts, shared } = packing.split(service)
    return packing.join(
      { namespace: service.metadata?.namespace, name: 'web' },
      texts,
      JSON.parse(JSON.stringify(shared)),
    )
  }
  const metadata = { namespace: 'default', name: 'web', uid: 'u', resourceVersion: '7' }
  const held = (clusterIP: string | undefined, spec: object = {}): Service => {
    const clusterIPs = clusterIP === undefined ? undefined : [clusterIP]
    return trimService({
      metadata,
      spec: { type: 'ClusterIP', clusterIP, clusterIPs, ports: [{ port: 80 }], ...spec },
    } as Service)
  }
  for (const service of [
    held('10.96.0.9'),
    held('None'),
    held('10.96.0.9', { type: 'LoadBalancer' }),
    held('10.96.0.9', { clusterIPs: ['10.96.0.9', 'fd00::9'] }),
  ]) {
    assert.deepEqual(through(service), service)
    assert.deepEqual(packing.split(service).shared, { type: service.spec?.type })
  }
  for (const service of [
    held(undefined, { type: 'ExternalName' }),
    held(''),
    held('10.96.0.9', { ports: [{ port: 80, nodePort: 30_000, protocol: 'UDP' }, { nodePort: 30_001 }] }),
    held('10.96.0.9', { healthCheckNodePort: 30_001 }),
    held('10.96.0.9', { clusterIPs: ['10.96.0.8', 'fd00::9'] }),
    held('10.96.0.9', { clusterIPs: null }),
  ]) {
    assert.deepEqual(through(service), service)
    assert.deepEqual(packing.split(service).shared, {})
  }
  fc.assert(
    fc.property(someServices, (services) => {
      for (const one of services) {
        const service = trimService({ ...one, metadata: { ...metadata, creationTimestamp: '2026-01-01T00:00:00Z' } })
        assert.deepEqual(through(service), service)
      }
    }),
  )
})

test('a Service is indexed by its addresses in canonical form', () => {
  const keys = (clusterIPs: readonly string[]) =>
    trimService.packing.keysOf({ spec: { clusterIP: clusterIPs[0], clusterIPs } } as Service)
  assert.deepEqual(keys(['010.0.0.1', 'FD00::1']), ['10.0.0.1', 'fd00::1'])
  assert.deepEqual(keys(['None']), [])
})

test('a Service with a field of the wrong type is refused; a null field counts as empty', () => {
  const clusterIP = '10.96.0.9'
  for (const spec of [
    { clusterIP: 5 },
    { clusterIP, clusterIPs: [5] },
    { clusterIP, clusterIPs: [clusterIP, null] },
    { clusterIP, clusterIPs: clusterIP },
    { clusterIP, clusterIPs: Array.from({ length: 17 }, () => clusterIP) },
    { clusterIPs: 5 },
    { ports: 5 },
    { ports: [{ nodePort: { toString: 1 } }] },
    { ports: [{ nodePort: Number.POSITIVE_INFINITY }] },
    { healthCheckNodePort: '7' },
  ]) {
    assert.throws(() => trimService({ metadata: {}, spec } as unknown as Service), TypeError, JSON.stringify(spec))
  }
  const store = new Store(trimService.packing)
  const metadata = { namespace: 'default', name: 'web', uid: 'u', resourceVersion: '7', creationTimestamp: null }
  for (const spec of [
    { clusterIP: null, clusterIPs: [null], ports: null, healthCheckNodePort: null },
    { clusterIP, clusterIPs: null, ports: [{ port: 80, nodePort: null }] },
    { clusterIP, clusterIPs: [clusterIP] },
  ]) {
    const object = trimService({ metadata, spec } as unknown as Service)
    store.apply({
      type: 'MODIFIED',
      object: { ...object, metadata: { ...object.metadata, uid: JSON.stringify(spec) } },
    })
    assert.deepEqual(store.get({ namespace: 'default', name: 'web' })?.spec, object.spec)
    assert.equal(store.get({ namespace: 'default', name: 'web' })?.metadata?.creationTimestamp, undefined)
  }
})

test('a Service without clusterIPs holds its clusterIP', () => {
  assert.deepEqual(clusterIpsOf({ spec: { clusterIP: '10.96.0.9' } } as Service), ['10.96.0.9'])
  assert.deepEqual(clusterIpsOf({ spec: { clusterIP: 'None', clusterIPs: ['None'] } } as Service), [])
  assert.deepEqual(clusterIpsOf({} as Service), [])
})

test('a port whose NodePort is missing or 0 holds none', () => {
  const ports = [{ port: 80, nodePort: 0 }, { port: 81 }, { port: 82, nodePort: 1 }]
  assert.deepEqual(nodePortsOf({ spec: { ports, healthCheckNodePort: 0 } } as Service), [1])
})

test('a null field counts as missing', () => {
  const none = { spec: { clusterIP: null, clusterIPs: null, healthCheckNodePort: null, ports: null } }
  const numberless = { spec: { ...none.spec, ports: [{ port: 80, nodePort: null, protocol: null }] } }
  const held = { spec: { ...none.spec, clusterIPs: [null] } }
  for (const given of [none, numberless, held] as unknown as Service[]) {
    for (const service of [given, trimService(given)]) {
      assert.deepEqual(clusterIpsOf(service), [])
      assert.deepEqual(nodePortsOf(service), [])
    }
  }
})
