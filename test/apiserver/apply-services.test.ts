import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from './embedded.ts'

const path = '/api/v1/namespaces/default/services/web'
const applyPatch = 'application/apply-patch+yaml'

function service(...ports: readonly object[]): object {
  return { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: { selector: { app: 'web' }, ports } }
}

/** The ports of the Service, after its ports were applied by `manager`. */
async function applied(embedded: Embedded, manager: string, ...ports: readonly object[]): Promise<readonly unknown[]> {
  const { status, body } = await embedded.send(
    'PATCH',
    `${path}?fieldManager=${manager}`,
    service(...ports),
    applyPatch,
  )
  assert.ok(status === 200 || status === 201, JSON.stringify(body))
  return body.spec.ports
}

test('a port that is applied without its protocol is the TCP port that is there', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', '/api/v1/namespaces/default/services', service({ name: 'a', port: 80 }))
  const ports = await applied(embedded, 'one', { name: 'a', port: 80 })
  assert.deepEqual(ports, [{ name: 'a', port: 80, protocol: 'TCP', targetPort: 80 }])
})

test('a port that is no longer applied goes with its defaults', async () => {
  const embedded = await Embedded.started()
  await applied(embedded, 'one', { name: 'a', port: 80 }, { name: 'b', port: 443 })
  const ports = await applied(embedded, 'one', { name: 'a', port: 80 })
  assert.deepEqual(ports, [{ name: 'a', port: 80, protocol: 'TCP', targetPort: 80 }])
})

test('the owners that an update gives are taken, [{}] stands for none, and malformed ones are ignored', async () => {
  const embedded = await Embedded.started()
  await applied(embedded, 'one', { name: 'a', port: 80 })
  const owners = async (managedFields: unknown): Promise<readonly string[]> => {
    const patch = { metadata: { managedFields } }
    const { body } = await embedded.send('PATCH', path, patch, 'application/merge-patch+json')
    return (body.metadata.managedFields ?? []).map(({ manager }: { manager: string }) => manager)
  }
  const fieldsV1 = { 'f:spec': { 'f:selector': {} } }
  const entry = { manager: 'two', operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }
  assert.deepEqual(await owners([entry]), ['two'])
  assert.deepEqual(await owners([{ ...entry, manager: 'three', operation: 'Guess' }]), ['two'])
  assert.deepEqual(await owners([{ ...entry, manager: 'three', fieldsV1: { 'f:spec': 1 } }]), ['two'])
  assert.deepEqual(await owners([]), ['two'])
  assert.deepEqual(await owners([{}]), [])
})

test('items that are the same are refused, each by its path and key', async () => {
  const embedded = await Embedded.started()
  for (const [ports, list] of [
    [[{ port: 80 }, { port: 80, protocol: 'TCP' }], '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]'],
    [
      [{ port: 80 }, { port: 80 }, { port: 81 }, { port: 81 }],
      'errors:\n  .spec.ports: duplicate entries for key [port=80,protocol="TCP"]\n  .spec.ports: duplicate entries for key [port=81,protocol="TCP"]',
    ],
  ] as const) {
    const { status, body } = await embedded.send('PATCH', `${path}?fieldManager=one`, service(...ports), applyPatch)
    assert.equal(status, 500)
    assert.equal(body.message, `failed to create typed patch object (/web; /v1, Kind=Service): ${list}`)
  }
  assert.equal((await embedded.send('GET', path)).status, 404)
})
