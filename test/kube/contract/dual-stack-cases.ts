import assert from 'node:assert/strict'
import type { KubeApi } from '../../../src/kube/api.ts'
import { endpointSlices, ipAddresses, type Service, services } from '../../../src/kube/resources.ts'
import { eventually } from '../../support/with-timeout.ts'
import { type ContractCase, refusedFields, rejectsWith, serviceIn, sliceIn } from './contract-case.ts'

/** The ranges of the server that these cases are for, IPv4 first. */
export const dualStackRanges = ['10.96.0.0/16', 'fd00:10:96::/112'] as const

const both = { ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv4', 'IPv6'] } as const

async function update(api: KubeApi, service: Service, spec: object): Promise<Service> {
  const { namespace, name = '' } = service.metadata ?? {}
  const current = await api.get(services, { namespace, name })
  return api.update(services, { ...current, spec: { ...current.spec, ...spec } } as Service)
}

function families({ spec }: Service): object {
  return { policy: spec?.ipFamilyPolicy, families: spec?.ipFamilies, count: spec?.clusterIPs?.length }
}

const single = { policy: 'SingleStack', families: ['IPv4'], count: 1 }
const dual = { policy: 'PreferDualStack', families: ['IPv4', 'IPv6'], count: 2 }

/** How a server with an IPv4 and an IPv6 range ({@link dualStackRanges}) handles the families of a Service. */
export const dualStackCases: readonly ContractCase[] = [
  {
    name: 'a Service gets the second address that it requests, at its creation or in an update',
    async run({ api, namespace }) {
      const made = await api.create(
        services,
        serviceIn(namespace, 'a', { ...both, clusterIP: '10.96.0.21', clusterIPs: ['10.96.0.21', 'fd00:10:96::21'] }),
      )
      assert.deepEqual(made.spec?.clusterIPs, ['10.96.0.21', 'fd00:10:96::21'])
      const later = await api.create(services, serviceIn(namespace, 'b', { clusterIP: '10.96.0.22' }))
      assert.deepEqual(families(later), single)
      const raised = await update(api, later, { ...both, clusterIPs: ['10.96.0.22', 'fd00:10:96::22'] })
      assert.deepEqual(raised.spec?.clusterIPs, ['10.96.0.22', 'fd00:10:96::22'])
      assert.deepEqual(families(raised), dual)
    },
  },
  {
    name: 'a Service that requests two families without a second address gets one',
    async run({ api, namespace }) {
      const service = await api.create(services, serviceIn(namespace, 'a'))
      assert.deepEqual(families(await update(api, service, { ipFamilyPolicy: 'PreferDualStack' })), dual)
      const named = await api.create(services, serviceIn(namespace, 'b'))
      assert.deepEqual(families(await update(api, named, both)), dual)
    },
  },
  {
    name: 'an update that requests the second address of another Service is Invalid and changes nothing',
    async run({ api, namespace }) {
      const owner = await api.create(services, serviceIn(namespace, 'a', both))
      const service = await api.create(services, serviceIn(namespace, 'b'))
      const clusterIPs = [service.spec?.clusterIP, owner.spec?.clusterIPs?.[1]]
      assert.deepEqual(await refusedFields(update(api, service, { ...both, clusterIPs })), ['spec.clusterIPs'])
      assert.deepEqual(await api.get(services, { namespace, name: 'b' }), service)
    },
  },
  {
    name: 'a change to SingleStack releases the second address, with or without a change of addresses and families',
    async run({ api, namespace }) {
      for (const [name, lists] of [
        ['a', true],
        ['b', false],
      ] as const) {
        const service = await api.create(services, serviceIn(namespace, name, both))
        const [first, second = ''] = service.spec?.clusterIPs ?? []
        const spec = { ipFamilyPolicy: 'SingleStack', ...(lists ? { clusterIPs: [first], ipFamilies: ['IPv4'] } : {}) }
        const lowered = await update(api, service, spec)
        assert.deepEqual(families(lowered), single)
        assert.equal(lowered.spec?.clusterIP, first)
        await eventually('the second address is free', async () =>
          api.get(ipAddresses, { name: second }).then(
            () => false,
            () => true,
          ),
        )
      }
    },
  },
  {
    name: 'the second address cannot be removed while the policy is PreferDualStack',
    async run({ api, namespace }) {
      const service = await api.create(services, serviceIn(namespace, 'a', both))
      const [first] = service.spec?.clusterIPs ?? []
      const fewer = update(api, service, { clusterIPs: [first], ipFamilies: ['IPv4'] })
      assert.deepEqual(await refusedFields(fewer), ['spec.ipFamilyPolicy'])
      assert.deepEqual(await api.get(services, { namespace, name: 'a' }), service)
    },
  },
  {
    name: 'the two addresses of a Service cannot be swapped',
    async run({ api, namespace }) {
      const service = await api.create(services, serviceIn(namespace, 'a', both))
      const clusterIPs = service.spec?.clusterIPs?.toReversed()
      const turned = update(api, service, { clusterIP: clusterIPs?.[0], clusterIPs, ipFamilies: ['IPv6', 'IPv4'] })
      await rejectsWith('Invalid', turned)
      assert.deepEqual(await api.get(services, { namespace, name: 'a' }), service)
    },
  },
  {
    name: 'a change from RequireDualStack to PreferDualStack preserves the addresses',
    async run({ api, namespace }) {
      const service = await api.create(
        services,
        serviceIn(namespace, 'a', { ...both, ipFamilyPolicy: 'RequireDualStack' }),
      )
      const preferring = await update(api, service, { ipFamilyPolicy: 'PreferDualStack' })
      assert.deepEqual(preferring.spec?.clusterIPs, service.spec?.clusterIPs)
    },
  },
  {
    name: 'an EndpointSlice cannot get addresses of another family or another addressType',
    async run({ api, namespace }) {
      const second = { endpoints: [{ addresses: ['2001:db8::1'], conditions: { ready: true } }], addressType: 'IPv6' }
      const made = await api.create(endpointSlices, sliceIn(namespace, 'kubernetes-ipv6', second))
      const mixed = { ...made, endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }] }
      await rejectsWith('Invalid', api.update(endpointSlices, mixed))
      await rejectsWith('Invalid', api.update(endpointSlices, { ...made, addressType: 'IPv4' }))
    },
  },
]
