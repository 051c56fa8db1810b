import assert from 'node:assert/strict'
import type { KubeApi } from '../../../src/kube/api.ts'
import { isKubeError } from '../../../src/kube/errors.ts'
import { ipAddresses, type Service, services } from '../../../src/kube/resources.ts'
import { eventually } from '../../support/with-timeout.ts'
import { type ContractCase, refusedFields, rejectsWith, serviceIn, withMeta } from './contract-case.ts'

const clusterIpOf = (service: Service): string => service.spec?.clusterIP ?? ''

function withSpec(service: Service, spec: object): Service {
  return { ...service, spec: { ...service.spec, ...spec } }
}

async function isTaken(api: KubeApi, ip: string): Promise<boolean> {
  try {
    await api.get(ipAddresses, { name: ip })
    return true
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return false
    throw error
  }
}

/** Services and the addresses that the server gives them. The server has an IPv4 range in a ServiceCIDR. */
export const serviceCases: readonly ContractCase[] = [
  {
    name: 'a Service with only a port gets the defaults of all other fields',
    async run({ api, namespace }) {
      const { spec, status } = await api.create(services, {
        metadata: { namespace, name: 'a' },
        spec: { ports: [{ port: 443 }] },
      })
      const { clusterIP, clusterIPs, ...rest } = spec ?? {}
      assert.deepEqual(rest, {
        type: 'ClusterIP',
        ports: [{ port: 443, protocol: 'TCP', targetPort: 443 }],
        sessionAffinity: 'None',
        ipFamilies: ['IPv4'],
        ipFamilyPolicy: 'SingleStack',
        internalTrafficPolicy: 'Cluster',
      })
      assert.deepEqual(clusterIPs, [clusterIP])
      assert.deepEqual(status, { loadBalancer: {} })
    },
  },
  {
    name: 'a ClusterIP has an IPAddress that names its Service and is deleted with it',
    async run({ api, namespace }) {
      const service = await api.create(services, serviceIn(namespace, 'a'))
      const ip = clusterIpOf(service)
      const address = await api.get(ipAddresses, { name: ip })
      assert.deepEqual(address.spec?.parentRef, { resource: 'services', namespace, name: 'a' })
      assert.deepEqual(address.metadata?.labels, {
        'ipaddress.kubernetes.io/ip-family': 'IPv4',
        'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
      })
      await api.delete(services, { namespace, name: 'a' })
      await eventually('the address is free', async () => !(await isTaken(api, ip)))
    },
  },
  {
    name: 'a Service gets the free ClusterIP that it requests',
    async run({ api, namespace }) {
      const first = await api.create(services, serviceIn(namespace, 'a'))
      const clusterIP = clusterIpOf(first)
      await api.delete(services, { namespace, name: 'a' })
      await eventually('the address is free', async () => !(await isTaken(api, clusterIP)))
      const second = await api.create(services, serviceIn(namespace, 'b', { clusterIP }))
      assert.deepEqual(second.spec?.clusterIPs, [clusterIP])
    },
  },
  {
    name: 'a ClusterIP of another Service is Invalid, even in a create with a name that exists',
    async run({ api, namespace }) {
      const first = await api.create(services, serviceIn(namespace, 'a'))
      const clusterIP = clusterIpOf(first)
      for (const name of ['a', 'b']) {
        const error = await rejectsWith('Invalid', api.create(services, serviceIn(namespace, name, { clusterIP })))
        assert.deepEqual(error.status?.details?.causes, [
          {
            reason: 'FieldValueInvalid',
            message: `Invalid value: ["${clusterIP}"]: failed to allocate IP ${clusterIP}: provided IP is already allocated`,
            field: 'spec.clusterIPs',
          },
        ])
      }
      await rejectsWith('AlreadyExists', api.create(services, serviceIn(namespace, 'a')))
    },
  },
  {
    name: 'a refused Service does not occupy its requested ClusterIP',
    async run({ api, namespace }) {
      const first = await api.create(services, serviceIn(namespace, 'a'))
      await api.delete(services, { namespace, name: 'a' })
      const clusterIP = clusterIpOf(first)
      await eventually('the address is free', async () => !(await isTaken(api, clusterIP)))
      await api.create(services, serviceIn(namespace, 'b'))
      await rejectsWith('AlreadyExists', api.create(services, serviceIn(namespace, 'b', { clusterIP })))
      await eventually('the address is free', async () => !(await isTaken(api, clusterIP)))
    },
  },
  {
    name: 'a ClusterIP outside all ranges, or with another format, is Invalid',
    async run({ api, namespace }) {
      const create = (clusterIP: string) => api.create(services, serviceIn(namespace, 'a', { clusterIP }))
      assert.deepEqual(await refusedFields(create('203.0.113.250')), ['spec.clusterIPs'])
      assert.deepEqual(await refusedFields(create('here')), ['spec.clusterIPs[0]'])
      assert.deepEqual(await refusedFields(create('2001:db8::1')), ['spec.clusterIPs[0]'])
    },
  },
  {
    name: 'an update without the ClusterIP preserves it, and an update with another one is Invalid',
    async run({ api, namespace }) {
      const created = await api.create(services, serviceIn(namespace, 'a'))
      const blind = await api.update(services, withMeta(serviceIn(namespace, 'a'), { labels: { x: 'y' } }))
      assert.deepEqual(blind.spec, created.spec)
      const other = withSpec(blind, { clusterIP: '203.0.113.250', clusterIPs: ['203.0.113.250'] })
      assert.deepEqual(await refusedFields(api.update(services, other)), ['spec.clusterIPs[0]'])
    },
  },
  {
    name: 'a headless Service has no ClusterIP, needs no ports, and without a selector has both families',
    async run({ api, namespace }) {
      const spec = { clusterIP: 'None', ports: [], selector: { app: 'x' } }
      const created = await api.create(services, serviceIn(namespace, 'a', spec))
      assert.deepEqual(created.spec?.clusterIPs, ['None'])
      assert.deepEqual(created.spec?.ipFamilies, ['IPv4'])
      assert.equal(created.spec?.ipFamilyPolicy, 'SingleStack')
      const bare = await api.create(services, serviceIn(namespace, 'b', { clusterIP: 'None', ports: [] }))
      assert.equal(bare.spec?.ipFamilyPolicy, 'RequireDualStack')
      assert.deepEqual(bare.spec?.ipFamilies, ['IPv4', 'IPv6'])
    },
  },
  {
    name: 'an ExternalName Service needs a name and has no ClusterIP; a change to this type releases the ClusterIP',
    async run({ api, namespace }) {
      const named = { type: 'ExternalName', externalName: 'example.com', ports: [] }
      const created = await api.create(services, serviceIn(namespace, 'a', named))
      assert.equal(created.spec?.clusterIP, undefined)
      assert.deepEqual(await refusedFields(api.create(services, serviceIn(namespace, 'b', { type: 'ExternalName' }))), [
        'spec.externalName',
      ])
      const addressed = await api.create(services, serviceIn(namespace, 'c'))
      const ip = clusterIpOf(addressed)
      const changed = await api.update(
        services,
        withSpec(addressed, { type: 'ExternalName', externalName: 'example.com' }),
      )
      assert.equal(changed.spec?.clusterIP, undefined)
      await eventually('the address is free', async () => !(await isTaken(api, ip)))
    },
  },
  {
    name: 'a Service is Invalid without ports, or with duplicate, unnamed or malformed ones',
    async run({ api, namespace }) {
      const create = (ports: readonly object[]) => api.create(services, serviceIn(namespace, 'a', { ports } as never))
      assert.deepEqual(await refusedFields(create([])), ['spec.ports'])
      assert.deepEqual(await refusedFields(create([{ port: 1 }, { port: 2, name: 'b' }])), ['spec.ports[0].name'])
      assert.deepEqual(
        await refusedFields(
          create([
            { port: 1, name: 'a' },
            { port: 2, name: 'a' },
          ]),
        ),
        ['spec.ports[1].name'],
      )
      assert.deepEqual(
        await refusedFields(
          create([
            { port: 1, name: 'a' },
            { port: 1, name: 'b' },
          ]),
        ),
        ['spec.ports[1]'],
      )
      assert.deepEqual(await refusedFields(create([{ port: 0 }])), ['spec.ports[0].port', 'spec.ports[0].targetPort'])
      assert.deepEqual(await refusedFields(create([{ port: 1, protocol: 'X' }])), ['spec.ports[0].protocol'])
      assert.deepEqual(await refusedFields(create([{ port: 1, targetPort: '-x' }])), ['spec.ports[0].targetPort'])
      assert.deepEqual(await refusedFields(create([{ port: 1, nodePort: 30_000 }])), ['spec.ports[0].nodePort'])
    },
  },
  {
    name: 'a Service with an unknown type or session affinity is Invalid',
    async run({ api, namespace }) {
      const create = (spec: object) => api.create(services, serviceIn(namespace, 'a', spec))
      assert.deepEqual(await refusedFields(create({ type: 'X' })), ['spec.type'])
      assert.deepEqual(await refusedFields(create({ sessionAffinity: 'X' })), ['spec.sessionAffinity'])
    },
  },
  {
    name: 'with ranges of one family PreferDualStack gets one address; RequireDualStack and the other family are Invalid',
    async run({ api, namespace }) {
      const create = (name: string, spec: object) => api.create(services, serviceIn(namespace, name, spec))
      const preferring = await create('a', { ipFamilyPolicy: 'PreferDualStack' })
      assert.deepEqual(preferring.spec?.ipFamilies, ['IPv4'])
      assert.equal(preferring.spec?.clusterIPs?.length, 1)
      assert.deepEqual(await refusedFields(create('b', { ipFamilyPolicy: 'RequireDualStack' })), [
        'spec.ipFamilyPolicy',
      ])
      assert.deepEqual(await refusedFields(create('b', { ipFamilies: ['IPv6'] })), ['spec.ipFamilies[0]'])
    },
  },
  {
    name: 'a write to the status of a Service changes only the status',
    async run({ api, namespace }) {
      const created = await api.create(services, serviceIn(namespace, 'a'))
      const condition = {
        type: 'Tested',
        status: 'True',
        reason: 'x',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      }
      const given = { ...withSpec(created, { sessionAffinity: 'ClientIP' }), status: { conditions: [condition] } }
      const { spec, status } = await api.update(services, given, { subresource: 'status' })
      assert.deepEqual(spec, created.spec)
      assert.deepEqual(status, { loadBalancer: {}, conditions: [condition] })
    },
  },
  {
    name: 'ten Services that are created concurrently get ten different ClusterIPs',
    async run({ api, namespace }) {
      const names = Array.from({ length: 10 }, (_, i) => `s${i}`)
      const made = await Promise.all(names.map((name) => api.create(services, serviceIn(namespace, name))))
      assert.equal(new Set(made.map(clusterIpOf)).size, 10)
    },
  },
]
