import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startApiServer } from '../../src/apiserver/http-start.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const pods = '/api/v1/namespaces/default/pods'
const nodes = '/api/v1/nodes'
const maps = '/api/v1/namespaces/default/configmaps'
const secrets = '/api/v1/namespaces/default/secrets'
const services = '/api/v1/namespaces/default/services'
const merge = 'application/merge-patch+json'
const json = 'application/json'
const apply = 'application/apply-patch+yaml'
const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
const endless = { terminationGracePeriodSeconds: Number.MAX_SAFE_INTEGER }
const pod = { metadata: { name: 'p' }, spec: { containers: [{ name: 'c', image: 'i' }], nodeName: 'n', ...endless } }

/** Requests that clients can send, and the statuses of the answers. */
const requests: readonly (readonly [method: string, path: string, type: string, body: unknown, status: number])[] = [
  ['PATCH', `${pods}/p/status`, merge, { status: { containerStatuses: 'x' } }, 400],
  ['PATCH', `${pods}/p/status`, merge, { status: { containerStatuses: [null] } }, 200],
  ['PATCH', `${pods}/p/status`, merge, { status: { conditions: [null] } }, 200],
  ['PATCH', `${pods}/p/status`, merge, { status: { startTime: 'yesterday' } }, 400],
  ['PATCH', `${nodes}/n/status`, merge, { status: { addresses: [null], conditions: [null] } }, 200],
  ['PATCH', `${nodes}/n/status`, merge, { status: { nodeInfo: [1] } }, 400],
  ['POST', secrets, json, { metadata: { name: 's' }, type: 'constructor' }, 201],
  ['POST', secrets, json, { metadata: { name: 't' }, stringData: { a: 1 } }, 400],
  ['POST', secrets, json, { metadata: { name: 't' }, stringData: 'x' }, 400],
  ['POST', secrets, json, { metadata: { name: 't' }, data: { a: 'A'.repeat(1_400_000) } }, 422],
  ['POST', maps, json, { metadata: { name: 'm' }, data: { a: 'a'.repeat(1_048_577) } }, 422],
  ['POST', maps, json, { metadata: { name: 'm' }, data: { a: 'a'.repeat(1_048_576) } }, 201],
  ['POST', maps, json, `{"metadata":{"name":"d"},"data":${deep}}`, 400],
  ['POST', services, json, `{"metadata":{"name":"e"},"spec":{"ports":[${'{},'.repeat(50_000)}{}]}}`, 400],
  ['PATCH', `${maps}/m`, 'application/json-patch+json', `[{"op":"add","path":"/data","value":${deep}}]`, 400],
  ['PATCH', `${maps}/m`, 'application/strategic-merge-patch+json', `{"metadata":{"finalizers":[${deep}]}}`, 400],
  ['PATCH', `${maps}/m`, 'application/json-patch+json', 'null', 200],
  ['PATCH', `${maps}/m`, 'application/strategic-merge-patch+json', 'null', 200],
  ['PATCH', `${maps}/m`, merge, 'null', 400],
  ['POST', maps, json, { metadata: { name: 'é' }, dätä: 1, ['x'.repeat(100_000)]: 1, 'a\u0000\u009f"\\': 1 }, 422],
  ['POST', `${maps}?fieldManager=${'m'.repeat(129)}`, json, { metadata: { name: 'f' } }, 422],
  ['DELETE', `${pods}/p?gracePeriodSeconds=99999999999999999`, json, '', 400],
  ['DELETE', `${pods}/p`, json, { dryRun: {} }, 400],
  ['DELETE', `${pods}/p`, json, { preconditions: 'x' }, 400],
  ['DELETE', `${pods}/p`, json, [], 400],
  ['PATCH', `${pods}/p`, merge, { spec: { terminationGracePeriodSeconds: 1 } }, 422],
  ['DELETE', `${pods}/p`, json, '', 200],
  ['POST', maps, json, { metadata: { name: 'g', finalizers: ['example.com/f'] } }, 201],
  ['PATCH', `${maps}/g`, merge, { metadata: { deletionGracePeriodSeconds: 5 } }, 422],
  ['PATCH', `${maps}/g`, merge, { metadata: { deletionGracePeriodSeconds: 0 } }, 422],
  ['PATCH', `${maps}/g`, merge, { metadata: { deletionGracePeriodSeconds: null } }, 200],
  ['DELETE', `${maps}/g`, json, '', 200],
  ['PATCH', `${maps}/g`, merge, { metadata: { deletionGracePeriodSeconds: 5, finalizers: null } }, 422],
  ['PATCH', `${maps}/g`, merge, { metadata: { deletionGracePeriodSeconds: null } }, 200],
  ['PATCH', `${maps}/g`, merge, { metadata: { finalizers: null } }, 200],
  ['PATCH', `${maps}/g`, merge, { metadata: { finalizers: null } }, 404],
]

/** Applied bodies, and the type that the answer names. */
const applied: readonly (readonly [body: unknown, type: string])[] = [
  [{ apiVersion: 5, kind: 'X' }, '/, Kind=X'],
  [{ apiVersion: 'v1', kind: { toString: 1 } }, '/v1, Kind='],
  [{ apiVersion: 5, kind: 'ConfigMap' }, '/, Kind=ConfigMap'],
  [{ apiVersion: '', kind: 'ConfigMap' }, '/, Kind=ConfigMap'],
  [{ apiVersion: {}, kind: {} }, '/, Kind='],
  [{ apiVersion: 'v1' }, '/v1, Kind='],
  ['null', '/, Kind='],
]

test('bodies of wrong types, depths or sizes get the expected statuses, and no stored object breaks a list', async (t) => {
  const logger = memoryLogger()
  const server = await startApiServer({ logger })
  t.after(() => server.close())
  const token = `Bearer ${server.token}`
  const { Agent, fetch } = await import('undici')
  const dispatcher = new Agent({ connect: { ca: server.certificate } })
  t.after(() => dispatcher.close())
  const send = async (
    method: string,
    path: string,
    type: string,
    body?: unknown,
  ): Promise<[number, string, string]> => {
    const headers = { authorization: token, 'content-type': type, accept: `${json};as=Table;v=v1;g=meta.k8s.io` }
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers,
      dispatcher,
      ...(text ? { body: text } : {}),
    })
    return [answer.status, await answer.text(), answer.headers.get('warning') ?? '']
  }
  assert.equal((await send('POST', pods, json, pod))[0], 201)
  assert.equal((await send('POST', nodes, json, { metadata: { name: 'n' } }))[0], 201)
  for (const [method, path, type, body, expected] of requests) {
    const what = `${method} ${path.slice(0, 80)} ${JSON.stringify(body).slice(0, 80)}`
    const [status, answer] = await send(method, path, type, body)
    assert.equal(status, expected, `${what}: ${answer.slice(0, 300)}`)
    for (const list of [pods, nodes, maps, secrets]) {
      const [listed] = await send('GET', list, json)
      assert.equal(listed, 200, `${list} after ${what}`)
    }
  }
  for (const [body, type] of applied) {
    const [status, answer] = await send('PATCH', `${maps}/m?fieldManager=a`, apply, body)
    assert.deepEqual([status, JSON.parse(answer).message], [400, `invalid object type: ${type}`])
  }
  assert.deepEqual(logger.lines, [])
  const unknown = { metadata: { name: 'w' }, dätä: 1, 'a\u009f"\\': 1, ['x'.repeat(10_000)]: 1 }
  const [status, , warning] = await send('POST', maps, json, unknown)
  assert.equal(status, 201)
  const sent = Buffer.from(warning, 'latin1').toString('utf8')
  assert.ok(sent.startsWith('299 - "unknown field \\"dätä\\"", '), sent)
  assert.ok(sent.length < 4500, `${sent.length} characters`)
})
