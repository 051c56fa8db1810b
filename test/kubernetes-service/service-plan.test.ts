import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../../src/kube/resources.ts'
import { planService, type ServiceSettings } from '../../src/kubernetes-service/service-plan.ts'

const settings: ServiceSettings = { clusterIp: '10.96.0.1', securePort: 6443, nodePort: 0 }
const made = planService(undefined, settings, true)
if (made.type !== 'create') throw new Error('a missing Service must be made')
const right: Service = {
  ...made.object,
  metadata: { ...made.object.metadata, resourceVersion: '5' },
  spec: { ...made.object.spec, clusterIPs: ['10.96.0.1'] },
}
const damaged = (spec: object): Service => ({ ...right, spec: { ...right.spec, ...spec } }) as Service

test('a Service that is in sync is left unchanged', () => {
  assert.deepEqual(planService(right, settings, true), { type: 'none' })
})

test('ports, type and a foreign selector are corrected; the other fields of the Service are preserved', () => {
  const https = { name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 }
  const damages: readonly [reasons: readonly string[], spec: object][] = [
    [['ports'], { ports: [{ ...https, port: 444 }] }],
    [['ports'], { ports: [{ ...https, name: 'other' }] }],
    [['ports'], { ports: [{ ...https, targetPort: 'https' }] }],
    [['ports'], { ports: [https, { name: 'more', port: 80, protocol: 'TCP', targetPort: 80 }] }],
    [['ports'], { ports: [{ ...https, appProtocol: 'http' }] }],
    [['type', 'ports'], { type: 'NodePort', ports: [{ ...https, nodePort: 30_443 }] }],
    [['selector'], { selector: { app: 'x' } }],
  ]
  for (const [reasons, spec] of damages) {
    const action = planService(damaged({ ...spec, unknown: 'preserved' }), settings, true)
    assert.equal(action.type, 'update')
    if (action.type !== 'update') continue
    assert.deepEqual(action.reasons, reasons)
    const after = action.object.spec as unknown as Record<string, unknown>
    assert.deepEqual(after.ports, [https])
    assert.equal(after.type, 'ClusterIP')
    assert.equal(after.selector, undefined)
    assert.equal(after.unknown, 'preserved')
    assert.equal(action.object.metadata?.resourceVersion, '5')
  }
})

test('null counts as unset, because some servers write it so', () => {
  assert.deepEqual(planService(damaged({ selector: null, ports: right.spec?.ports }), settings, true), { type: 'none' })
  for (const stack of ['single', 'dual'] as const) {
    const unset = damaged({ type: 'ExternalName', clusterIP: null, clusterIPs: null, externalName: 'x.example' })
    const action = planService(unset, { ...settings, secondClusterIp: 'fd00::1' }, true, stack)
    assert.equal(action.type === 'update' && action.object.spec?.clusterIP, '10.96.0.1', stack)
  }
})

test('a Service that became an ExternalName gets its address back', () => {
  const { clusterIP: _ip, clusterIPs: _ips, ...rest } = right.spec ?? {}
  const action = planService(
    { ...right, spec: { ...rest, type: 'ExternalName', externalName: 'x.example' } } as Service,
    settings,
    true,
  )
  assert.equal(action.type === 'update' && action.object.spec?.clusterIP, '10.96.0.1')
  assert.equal(action.type === 'update' && 'externalName' in (action.object.spec ?? {}), false)
})

test('a Service that was a LoadBalancer loses what a server refuses for other types, and no other annotation', () => {
  const sourceRanges = 'service.beta.kubernetes.io/load-balancer-source-ranges'
  const { metadata, spec } = damaged({ type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.0/8'] })
  const annotations = { [sourceRanges]: '10.0.0.0/8', other: 'preserved' }
  const action = planService({ spec, metadata: { ...metadata, annotations } } as Service, settings, true)
  assert.equal(action.type, 'update')
  if (action.type !== 'update') return
  assert.equal('loadBalancerSourceRanges' in (action.object.spec ?? {}), false)
  assert.deepEqual(action.object.metadata, { ...metadata, annotations: { other: 'preserved' } })
})

test('while the fleet wants different ports, an ExternalName Service stays one, but loses its selector', () => {
  const { clusterIP: _ip, clusterIPs: _ips, ...rest } = right.spec ?? {}
  const spec = { ...rest, type: 'ExternalName', externalName: 'x.example' }
  const action = planService({ ...right, spec: { ...spec, selector: { app: 'x' } } } as Service, settings, false)
  assert.deepEqual(action.type === 'update' && action.object.spec, spec)
})

test('while the fleet wants different ports, type and ports stay as found, and a missing Service is created', () => {
  const port = { name: 'https', port: 443, targetPort: 7443 }
  for (const spec of [
    { ports: [port] },
    { type: 'NodePort', ports: [{ ...port, nodePort: 30_443 }] },
    { type: 'LoadBalancer' },
  ]) {
    assert.deepEqual(planService(damaged(spec), settings, false), { type: 'none' })
  }
  assert.equal(planService(undefined, settings, false).type, 'create')
})

test('an existing Service preserves its ClusterIP, whatever the configured range is', () => {
  assert.deepEqual(planService(damaged({ clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] }), settings, true), {
    type: 'none',
  })
})

test('a configured node port makes the Service a NodePort Service', () => {
  const action = planService(right, { ...settings, nodePort: 30_443 }, true)
  assert.deepEqual(action.type === 'update' && action.reasons, ['type', 'ports'])
})
