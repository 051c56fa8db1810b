import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

const path = '/api/v1/namespaces/default/pods'
const merge = 'application/merge-patch+json'

function pod(spec: object = {}): object {
  return {
    metadata: { name: 'p' },
    spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
    status: { phase: 'Running' },
  }
}

test('a new Pod is Pending whatever its creator sends, and its status subresource changes only the status', async () => {
  const embedded = await Embedded.started()
  const { body } = await embedded.send('POST', path, pod())
  assert.deepEqual(body.status, { phase: 'Pending' })
  assert.equal(body.metadata.generation, 1)
  const status = { phase: 'Running', podIP: '10.1.1.1', podIPs: [{ ip: '10.1.1.1' }] }
  const written = await embedded.send('PATCH', `${path}/p/status`, { status, spec: { nodeName: 'n' } }, merge)
  assert.deepEqual(written.body.status, status)
  assert.equal(written.body.spec.nodeName, undefined)
  assert.equal(written.body.metadata.generation, 1)
})

test('a deleted Pod on a Node stays until it is deleted with a grace period of 0', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, pod({ nodeName: 'n', terminationGracePeriodSeconds: 10 }))
  const { body } = await embedded.send('DELETE', `${path}/p`)
  assert.equal(body.metadata.deletionGracePeriodSeconds, 10)
  assert.equal(body.metadata.deletionTimestamp, '2026-01-01T00:00:10Z')
  assert.equal(body.metadata.generation, 2)
  const { revision } = embedded.server
  assert.deepEqual((await embedded.send('DELETE', `${path}/p`)).body, body)
  assert.equal(embedded.server.revision, revision)
  await embedded.send('DELETE', `${path}/p`, { gracePeriodSeconds: 0 })
  assert.equal((await embedded.send('GET', `${path}/p`)).status, 404)
})

test('deleting a Pod without a Node marks it and removes it at once', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, pod())
  const query = `watch=1&resourceVersion=${embedded.server.revision}`
  const { body: stream } = await embedded.send('GET', `${path}?${query}`)
  const events = stream[Symbol.asyncIterator]()
  await embedded.send('DELETE', `${path}/p`)
  const marked = (await events.next()).value
  assert.equal(marked.type, 'MODIFIED')
  assert.equal(marked.object.metadata.deletionGracePeriodSeconds, 0)
  assert.equal((await events.next()).value.type, 'DELETED')
  await events.return()
})

test('Pods can be selected by Node, phase and address', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, pod({ nodeName: 'n' }))
  for (const [selector, count] of [
    ['spec.nodeName=n', 1],
    ['spec.nodeName=m', 0],
    ['status.phase=Pending', 1],
    ['status.podIP=1.1.1.1', 0],
  ] as const) {
    assert.equal(
      (await embedded.send('GET', `${path}?fieldSelector=${encodeURIComponent(selector)}`)).body.items.length,
      count,
      selector,
    )
  }
})

test('keys of a ConfigMap consist of letters, digits, dots, dashes and underscores only', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/configmaps'
  const data = { 'a.b-c_D9': '1', '.a': '1', 'a..': '1', constructor: '2', toString: '3' }
  assert.equal((await embedded.send('POST', path, { metadata: { name: 'right' }, data })).status, 201)
  for (const key of ['a/b', 'a b', '', 'x'.repeat(254), '.', '..', '..a']) {
    const { status, body } = await embedded.send('POST', path, { metadata: { name: 'wrong' }, data: { [key]: '1' } })
    assert.deepEqual([status, body.reason, body.details.causes[0].field], [422, 'Invalid', `data[${key}]`])
  }
})

const secrets = '/api/v1/namespaces/default/secrets'
const mergePatch = 'application/merge-patch+json'

test('stringData of a Secret becomes base64 data, and its type defaults to Opaque', async () => {
  const embedded = await Embedded.started()
  const stringData = { word: 'öffne', other: '' }
  const { body } = await embedded.send('POST', secrets, { metadata: { name: 's' }, data: { b: 'Yg==' }, stringData })
  assert.deepEqual(body.data, { b: 'Yg==', word: 'w7ZmZm5l', other: '' })
  assert.equal(body.stringData, undefined)
  assert.equal(body.type, 'Opaque')
  const { body: changed } = await embedded.send('PATCH', `${secrets}/s`, { stringData: { b: 'c' } }, mergePatch)
  assert.equal(changed.data.b, 'Yw==')
})

test('Secret data that is not base64 is refused with the position of the error', async () => {
  const embedded = await Embedded.started()
  for (const [text, at] of [
    ['a b', 1],
    ['YQ=', 2],
    ['YWJj\n!', 5],
    ['Y', 1],
  ] as const) {
    const { status, body } = await embedded.send('POST', secrets, { metadata: { name: 's' }, data: { a: text } })
    assert.equal(status, 400)
    assert.match(body.message, new RegExp(`illegal base64 data at input byte ${at}$`))
  }
  for (const text of ['', 'YQ==', 'YWI=', 'YWJj', 'YW\nJj\n']) {
    const { status } = await embedded.send('POST', secrets, { metadata: { generateName: 's' }, data: { a: text } })
    assert.equal(status, 201, text)
  }
})

test('binaryData of a ConfigMap that is not base64 is refused', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/configmaps'
  const metadata = { name: 'one' }
  const { status, body } = await embedded.send('POST', path, { metadata, binaryData: { a: '!!' } })
  const why = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte 0'
  assert.deepEqual([status, body.message], [400, why])
  assert.equal((await embedded.send('POST', path, { metadata, binaryData: { a: 'YQ==' } })).status, 201)
  await embedded.send('PATCH', `${path}/one`, { binaryData: { b: '!!' } }, mergePatch)
  assert.deepEqual((await embedded.send('GET', `${path}/one`)).body.binaryData, { a: 'YQ==' })
})

test('an immutable Secret or ConfigMap refuses changes of data and immutable, but not of labels', async () => {
  for (const path of [secrets, '/api/v1/namespaces/default/configmaps']) {
    const embedded = await Embedded.started()
    await embedded.send('POST', path, { metadata: { name: 'one' }, data: { a: 'YQ==' }, immutable: true })
    const refused = await embedded.send('PATCH', `${path}/one`, { data: { a: 'Yg==' }, immutable: false }, mergePatch)
    assert.deepEqual(
      refused.body.details.causes.map(({ field }: { field: string }) => field),
      ['immutable', 'data'],
    )
    const labels = { metadata: { labels: { a: 'b' } } }
    assert.equal((await embedded.send('PATCH', `${path}/one`, labels, mergePatch)).status, 200)
  }
})

test('a SelfSubjectAccessReview is answered, not stored', async () => {
  const embedded = await Embedded.started()
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
  const { revision } = embedded.server
  const spec = { resourceAttributes: { verb: 'get', resource: 'pods' } }
  const { status, body } = await embedded.send('POST', path, { spec })
  assert.equal(status, 201)
  assert.deepEqual(body.status, { allowed: true })
  assert.deepEqual(body.spec, spec)
  assert.equal(embedded.server.revision, revision)
  for (const method of ['GET', 'DELETE'] as const) assert.equal((await embedded.send(method, path)).status, 405)
  assert.equal((await embedded.send('GET', `${path}/one`)).status, 404)
})

test('a Lease drops the fields of coordinated leader election', async () => {
  const embedded = await Embedded.started()
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  const spec = { holderIdentity: 'h', strategy: 'OldestEmulationVersion', preferredHolder: 'x' }
  const { body } = await embedded.send('POST', path, { metadata: { name: 'one' }, spec })
  assert.deepEqual(body.spec, { holderIdentity: 'h' })
  const change = [{ op: 'add', path: '/spec/strategy', value: 'x' }]
  const patched = await embedded.send('PATCH', `${path}/one`, change, 'application/json-patch+json')
  assert.deepEqual(patched.body.spec, { holderIdentity: 'h' })
})

test('the error for a field selector lists the supported fields, except for kinds with selectable fields of their own', async () => {
  const embedded = await Embedded.started()
  const refusal = async (plural: string): Promise<string> =>
    (await embedded.send('GET', `/api/v1/namespaces/default/${plural}?fieldSelector=spec.a%3Db`)).body.message
  const known = '"spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
  assert.equal(await refusal('configmaps'), known)
  assert.equal(await refusal('pods'), 'field label not supported: spec.a')
})
