import assert from 'node:assert/strict'
import { type EndpointSlice, endpointSlices, endpoints } from '../../../src/kube/resources.ts'
import { type ContractCase, refusedFields, rejectsWith, sliceIn, withMeta } from './contract-case.ts'

const unfitAddresses = [
  '127.0.0.1',
  '::1',
  '169.254.1.1',
  'fe80::1',
  '0.0.0.0',
  '::',
  '224.0.0.1',
  'ff02::1',
  'x',
  '010.0.0.1',
  '::ffff:192.0.2.1',
]

/** How the server handles Endpoints and EndpointSlices. */
export const endpointsCases: readonly ContractCase[] = [
  {
    name: 'the default protocol of ports in Endpoints is TCP',
    async run({ api, namespace }) {
      const subsets = [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 6443 }] }]
      const created = await api.create(endpoints, { metadata: { namespace, name: 'a' }, subsets })
      assert.deepEqual(created.subsets?.[0]?.ports, [{ port: 6443, protocol: 'TCP' }])
    },
  },
  ...unfitAddresses.map(
    (ip): ContractCase => ({
      name: `Endpoints with the address ${ip} are Invalid`,
      async run({ api, namespace }) {
        const subsets = [{ addresses: [{ ip }] }]
        const created = api.create(endpoints, { metadata: { namespace, name: 'a' }, subsets })
        assert.deepEqual(await refusedFields(created), ['subsets[0].addresses[0].ip'])
      },
    }),
  ),
  {
    name: 'Endpoints are Invalid with a subset without addresses, several ports without names, or an unknown port or protocol',
    async run({ api, namespace }) {
      const create = (subset: object) =>
        api.create(endpoints, { metadata: { namespace, name: 'a' }, subsets: [subset] } as never)
      const addresses = [{ ip: '192.0.2.1' }]
      assert.deepEqual(await refusedFields(create({ ports: [{ port: 1 }] })), ['subsets[0]'])
      assert.deepEqual(await refusedFields(create({ addresses, ports: [{ port: 1 }, { port: 2, name: 'b' }] })), [
        'subsets[0].ports[0].name',
      ])
      assert.deepEqual(await refusedFields(create({ addresses, ports: [{ port: 65536 }] })), [
        'subsets[0].ports[0].port',
      ])
      assert.deepEqual(await refusedFields(create({ addresses, ports: [{ port: 1, protocol: 'tcp' }] })), [
        'subsets[0].ports[0].protocol',
      ])
    },
  },
  {
    name: 'an EndpointSlice gets default port names, protocols and conditions; changes of content, but not of metadata, increase its generation',
    async run({ api, namespace }) {
      const bare = { endpoints: [{ addresses: ['192.0.2.1'] }], ports: [{ port: 1 }] }
      const created = await api.create(endpointSlices, sliceIn(namespace, 'a', bare))
      assert.deepEqual(created.ports, [{ name: '', port: 1, protocol: 'TCP' }])
      assert.deepEqual(created.endpoints, [{ addresses: ['192.0.2.1'], conditions: {} }])
      assert.equal(created.metadata?.generation, 1)
      const annotated = await api.update(endpointSlices, withMeta(created, { annotations: { x: 'y' } }))
      assert.equal(annotated.metadata?.generation, 1)
      const emptied = await api.update(endpointSlices, { ...annotated, endpoints: [] })
      assert.equal(emptied.metadata?.generation, 2)
      assert.equal(emptied.endpoints, null)
    },
  },
  {
    name: 'the addressType of an EndpointSlice cannot be changed',
    async run({ api, namespace }) {
      const created = await api.create(endpointSlices, sliceIn(namespace, 'a'))
      const other = { ...created, addressType: 'IPv6', endpoints: [] } as EndpointSlice
      assert.deepEqual(await refusedFields(api.update(endpointSlices, other)), ['addressType'])
    },
  },
  {
    name: 'an EndpointSlice is Invalid with an unknown addressType, with addresses of another type, or with addresses that are no destinations',
    async run({ api, namespace }) {
      const create = (more: object) => api.create(endpointSlices, sliceIn(namespace, 'a', more))
      assert.deepEqual(await refusedFields(create({ addressType: 'IP' })), ['addressType'])
      for (const address of ['127.0.0.1', '169.254.1.1', '0.0.0.0', '224.0.0.1', 'x', '010.0.0.1']) {
        assert.deepEqual(await refusedFields(create({ endpoints: [{ addresses: [address] }] })), [
          'endpoints[0].addresses[0]',
        ])
      }
      assert.deepEqual(await refusedFields(create({ endpoints: [{ addresses: ['2001:db8::1'] }] })), [
        'endpoints[0].addresses',
      ])
      assert.deepEqual(await refusedFields(create({ endpoints: [{ addresses: [] }] })), ['endpoints[0].addresses'])
      const upperCase = { addressType: 'IPv6', endpoints: [{ addresses: ['2001:DB8::1'] }] }
      assert.deepEqual(await refusedFields(create(upperCase)), ['endpoints[0].addresses[0]'])
    },
  },
  {
    name: 'an EndpointSlice is Invalid with more than 1000 endpoints or with two ports of the same name',
    async run({ api, namespace }) {
      const many = (count: number) =>
        Array.from({ length: count }, (_, i) => ({ addresses: [`10.0.${i >> 8}.${i % 256 || 1}`], conditions: {} }))
      await api.create(endpointSlices, sliceIn(namespace, 'a', { endpoints: many(1000) }))
      await rejectsWith('Invalid', api.create(endpointSlices, sliceIn(namespace, 'b', { endpoints: many(1001) })))
      const ports = [
        { name: 'x', port: 1 },
        { name: 'x', port: 2 },
      ]
      assert.deepEqual(await refusedFields(api.create(endpointSlices, sliceIn(namespace, 'b', { ports }))), [
        'ports[1].name',
      ])
    },
  },
]
