import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/patches.ts.

test('a strategic merge patch merges the addresses of a Node by type, and each address has its own owner', async () => {
  const embedded = await Embedded.started()
  const internal = { type: 'InternalIP', address: '192.0.2.1' }
  // Without a field of its creator, the server would never record an owner.
  const metadata = { name: 'one', labels: { a: 'b' } }
  await embedded.send('POST', '/api/v1/nodes', { metadata, status: { addresses: [internal] } })
  const external = { type: 'ExternalIP', address: '198.51.100.1' }
  const { body } = await embedded.send(
    'PATCH',
    '/api/v1/nodes/one/status?fieldManager=cloud',
    { status: { addresses: [external] } },
    'application/strategic-merge-patch+json',
  )
  assert.deepEqual(body.status.addresses, [external, internal])
  const cloud = body.metadata.managedFields.find(({ manager }: { manager: string }) => manager === 'cloud')
  assert.deepEqual(Object.keys(cloud.fieldsV1['f:status']['f:addresses']), ['k:{"type":"ExternalIP"}'])
})
