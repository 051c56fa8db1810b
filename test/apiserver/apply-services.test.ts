import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, Embedded } from './embedded.ts'

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

test('a port applied without a protocol matches the existing TCP port', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', '/api/v1/namespaces/default/services', service({ name: 'a', port: 80 }))
  const ports = await applied(embedded, 'one', { name: 'a', port: 80 })
  assert.deepEqual(ports, [{ name: 'a', port: 80, protocol: 'TCP', targetPort: 80 }])
})

test('a port that is no longer applied is removed together with its defaulted fields', async () => {
  const embedded = await Embedded.started()
  await applied(embedded, 'one', { name: 'a', port: 80 }, { name: 'b', port: 443 })
  const ports = await applied(embedded, 'one', { name: 'a', port: 80 })
  assert.deepEqual(ports, [{ name: 'a', port: 80, protocol: 'TCP', targetPort: 80 }])
})

test('an update may replace managedFields; [] and [{}] clear them, and malformed entries are ignored', async () => {
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
  assert.deepEqual(await owners(null), ['two'])
  assert.deepEqual(await owners([]), [])
  await applied(embedded, 'one', { name: 'a', port: 80 })
  assert.deepEqual(await owners([{}]), [])
})

test('an apply with duplicate ports is refused; the error lists each path and key', async () => {
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

/** The answer to a Service that is applied with nothing but a spec. */
function appliedSpec(embedded: Embedded, spec: object): Promise<Answer> {
  const object = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec }
  return embedded.send('PATCH', `${path}?fieldManager=one`, object, applyPatch)
}

function causesIn({ status, body }: Answer): readonly unknown[] {
  const causes = (body.details?.causes ?? []) as readonly { field: string; message: string }[]
  return [status, ...causes.map(({ field, message }) => `${field}: ${message}`)]
}

test('a headless Service preserves clusterIP None when it is no longer applied, and may lose its ports', async () => {
  const embedded = await Embedded.started()
  await appliedSpec(embedded, { clusterIP: 'None', ports: [{ port: 80 }] })
  const { body } = await appliedSpec(embedded, { ports: [{ port: 80 }] })
  assert.deepEqual([body.spec.clusterIP, body.spec.clusterIPs], ['None', ['None']])
  const { spec } = (await appliedSpec(embedded, {})).body
  assert.deepEqual([spec.clusterIP, spec.ports], ['None', undefined])
})

test('a Service with a ClusterIP cannot lose its ports', async () => {
  const embedded = await Embedded.started()
  await appliedSpec(embedded, { ports: [{ port: 80 }] })
  assert.deepEqual(causesIn(await appliedSpec(embedded, {})), [422, 'spec.ports: Required value'])
})

test('a strategic merge patch with $retainKeys: ports preserves the ClusterIP', async () => {
  const embedded = await Embedded.started()
  await appliedSpec(embedded, { clusterIP: 'None', ports: [{ port: 80 }] })
  const patch = { spec: { $retainKeys: ['ports'] } }
  const { status, body } = await embedded.send('PATCH', path, patch, 'application/strategic-merge-patch+json')
  assert.deepEqual([status, body.spec.clusterIP], [200, 'None'])
})

test('giving a headless Service a ClusterIP fails on IP families or clusterIPs before the check for immutability', async () => {
  const embedded = await Embedded.started()
  await appliedSpec(embedded, { clusterIP: 'None', ports: [{ port: 80 }] })
  const merge = (spec: object): Promise<Answer> =>
    embedded.send('PATCH', path, { spec }, 'application/merge-patch+json')
  assert.deepEqual(causesIn(await merge({ clusterIP: '10.96.7.7' })), [
    422,
    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
    'spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster',
  ])
  assert.deepEqual(causesIn(await merge({ clusterIPs: ['10.96.7.7'] })), [
    422,
    'spec.clusterIPs: Invalid value: ["10.96.7.7"]: first value must match `clusterIP`',
  ])
  assert.deepEqual(causesIn(await merge({ clusterIPs: ['None', 'None'] })), [
    422,
    'spec.clusterIPs: Invalid value: ["None","None"]: \'None\' must be the first and only value',
  ])
})

test('the first ClusterIP of a Service is immutable', async () => {
  const embedded = await Embedded.started()
  await appliedSpec(embedded, { ports: [{ port: 80 }] })
  const answer = await embedded.send('PATCH', path, { spec: { clusterIP: 'None' } }, 'application/merge-patch+json')
  assert.deepEqual(causesIn(answer), [422, 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'])
})

test('ExternalName and NodePort Services cannot be headless', async () => {
  const embedded = await Embedded.started()
  const refusal = async (spec: object): Promise<readonly unknown[]> => causesIn(await appliedSpec(embedded, spec))
  assert.deepEqual(await refusal({ type: 'ExternalName', clusterIP: 'None', externalName: 'a.example.com' }), [
    422,
    'spec.clusterIPs: Forbidden: may not be set for ExternalName services',
  ])
  assert.deepEqual(await refusal({ type: 'NodePort', clusterIP: 'None', ports: [{ port: 80 }] }), [
    422,
    'spec.clusterIPs[0]: Invalid value: "None": may not be set to \'None\' for NodePort services',
  ])
})
