import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inProcessReadiness, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { Embedded } from './embedded.ts'

const path = '/api/v1/namespaces/default/endpoints'
const endpoints = (name: string) => ({ metadata: { name }, subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] })

test('a new server contains no Namespace, no Service and no ServiceCIDR', async () => {
  const embedded = new Embedded()
  for (const list of ['/api/v1/namespaces', '/api/v1/services', '/apis/networking.k8s.io/v1/servicecidrs']) {
    const { status, body } = await embedded.send('GET', list)
    assert.equal(status, 200)
    assert.deepEqual(body.items, [])
  }
})

test('an unknown path returns 404: as plain text outside of the API, as a Status inside', async () => {
  const embedded = new Embedded()
  assert.deepEqual(await embedded.send('GET', '/nonsense'), { status: 404, body: '404 page not found\n' })
  assert.deepEqual(await embedded.send('GET', '/apis/nope/v1/things'), { status: 404, body: '404 page not found\n' })
  for (const unknown of [
    '/api/v1/things',
    '/api/v1/namespaces/default/nodes',
    `${path}/a/b`,
    `${path}/a/status`,
    '/api/v1/endpoints/a',
    '/api/v1/namespaces/%zz/endpoints',
    '/api/v1/namespaces/default//endpoints',
  ]) {
    const { status, body } = await embedded.send('GET', unknown)
    assert.equal(status, 404, unknown)
    assert.equal(body.message, 'the server could not find the requested resource')
  }
})

test('a method that a path does not support returns 405', async () => {
  const embedded = await Embedded.started()
  const requests = [
    ['PUT', path],
    ['PATCH', path],
    ['POST', `${path}/a`],
    ['POST', '/api/v1/endpoints'],
    ['DELETE', '/api/v1/endpoints'],
  ] as const
  for (const [method, at] of requests) {
    const { status, body } = await embedded.send(method, at, {})
    assert.equal(status, 405, `${method} ${at}`)
    assert.equal(body.reason, 'MethodNotAllowed')
  }
})

test('a patch of an unsupported media type is refused', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, endpoints('a'))
  assert.equal((await embedded.send('PATCH', `${path}/a`, {}, 'application/json')).status, 415)
  assert.equal(
    (await embedded.send('PATCH', `${path}/a`, {}, 'application/merge-patch+json; charset=utf-8')).status,
    200,
  )
})

test('a body of the wrong JSON type is a bad request', async () => {
  const embedded = await Embedded.started()
  for (const body of [undefined, null, [], 'text', 7])
    assert.equal((await embedded.send('POST', path, body)).status, 400)
  await embedded.send('POST', path, endpoints('a'))
  for (const body of [[], 'text', null]) {
    assert.equal((await embedded.send('PATCH', `${path}/a`, body, 'application/merge-patch+json')).status, 400)
  }
  for (const body of [{}, 'text', [1]]) {
    assert.equal((await embedded.send('PATCH', `${path}/a`, body, 'application/json-patch+json')).status, 400)
  }
})

test('the name and namespace of the path and the body must match', async () => {
  const embedded = await Embedded.started()
  assert.equal((await embedded.send('PUT', `${path}/a`, endpoints('b'))).status, 400)
  assert.equal((await embedded.send('PUT', `${path}/a`, { subsets: [] })).status, 400)
  const elsewhere = { metadata: { name: 'a', namespace: 'other' } }
  assert.equal((await embedded.send('POST', path, elsewhere)).status, 400)
  assert.equal((await embedded.send('PUT', `${path}/a`, elsewhere)).status, 400)
})

test('PUT returns 201 when it creates the object and 200 when it updates it', async () => {
  const embedded = await Embedded.started()
  assert.equal((await embedded.send('PUT', `${path}/a`, endpoints('a'))).status, 201)
  assert.equal((await embedded.send('PUT', `${path}/a`, endpoints('a'))).status, 200)
})

test('response bodies are deeply frozen; request bodies stay mutable and are copied', async () => {
  const embedded = await Embedded.started()
  const mine = endpoints('a')
  const { body } = await embedded.send('POST', path, mine)
  assert.ok(Object.isFrozen(body) && Object.isFrozen(body.metadata) && Object.isFrozen(body.subsets[0].addresses[0]))
  assert.ok(!Object.isFrozen(mine) && !Object.isFrozen(mine.subsets))
  mine.subsets.length = 0
  assert.equal((await embedded.send('GET', `${path}/a`)).body.subsets.length, 1)
})

test('a write takes effect before its promise is awaited', async () => {
  const embedded = await Embedded.started()
  const before = embedded.server.revision
  const answer = embedded.send('POST', path, endpoints('a'))
  assert.equal(embedded.server.revision, before + 1)
  await answer
})

test('a dry run returns the result and changes nothing', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  const { status, body } = await embedded.send('POST', `${path}?dryRun=All`, endpoints('a'))
  assert.equal(status, 201)
  assert.equal(body.metadata.name, 'a')
  const service = { metadata: { name: 's' }, spec: { ports: [{ port: 1 }] } }
  assert.equal((await embedded.send('POST', '/api/v1/namespaces/default/services?dryRun=All', service)).status, 201)
  assert.equal(embedded.server.revision, revision)
  await embedded.send('POST', path, endpoints('a'))
  await embedded.send('DELETE', `${path}/a?dryRun=All`)
  assert.equal(
    (
      await embedded.send(
        'PATCH',
        `${path}/a?dryRun=All`,
        { metadata: { labels: { x: 'y' } } },
        'application/merge-patch+json',
      )
    ).body.metadata.labels.x,
    'y',
  )
  assert.equal((await embedded.send('GET', `${path}/a`)).body.metadata.labels, undefined)
})

test('a dry-run update reserves no NodePort', async () => {
  const embedded = await Embedded.started()
  const services = '/api/v1/namespaces/default/services'
  const port = (nodePort?: number) => ({ ports: [{ port: 80, nodePort }], type: nodePort ? 'NodePort' : 'ClusterIP' })
  await embedded.send('POST', services, { metadata: { name: 'a' }, spec: port() })
  const patch = 'application/merge-patch+json'
  const tried = await embedded.send('PATCH', `${services}/a?dryRun=All`, { spec: port(30_080) }, patch)
  assert.equal(tried.body.spec.ports[0].nodePort, 30_080)
  assert.equal((await embedded.send('POST', services, { metadata: { name: 'b' }, spec: port(30_080) })).status, 201)
})

test('deleting a collection deletes the objects that the label selector matches', async () => {
  const embedded = await Embedded.started()
  for (const name of ['a', 'b', 'c']) await embedded.send('POST', path, { metadata: { name, labels: { [name]: '' } } })
  const { body } = await embedded.send('DELETE', `${path}?labelSelector=!b`)
  assert.deepEqual(
    body.items.map((item: { metadata: { name: string } }) => item.metadata.name),
    ['a', 'c'],
  )
  assert.equal((await embedded.send('GET', path)).body.items.length, 1)
})

test('a read at a future resourceVersion returns 504, retryAfterSeconds and Retry-After', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, endpoints('a'))
  for (const at of [`${path}/a`, path]) {
    const { status, body } = await embedded.send('GET', `${at}?resourceVersion=1000`)
    assert.equal(status, 504)
    assert.equal(body.details.retryAfterSeconds, 1)
  }
  const query = [['resourceVersion', '1000']] as const
  const request = { method: 'GET', path, query, headers: {} } as const
  const { headers } = await embedded.server.handle(request, new AbortController().signal)
  assert.deepEqual(headers, { 'content-type': 'application/json', 'retry-after': '1' })
})

test('a write without fieldManager records the user agent as manager; an apply without it is refused', async () => {
  const embedded = await Embedded.started()
  const { body } = await embedded.send('POST', path, endpoints('a'))
  assert.equal(body.metadata.managedFields[0].manager, 'tester')
  assert.equal((await embedded.send('PATCH', `${path}/a`, {}, 'application/apply-patch+yaml')).status, 422)
})

test('a request with a signal that is aborted changes nothing', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  const request = { method: 'POST', path, query: [], headers: {}, body: endpoints('a') } as const
  await assert.rejects(embedded.server.handle(request, AbortSignal.abort(new Error('no more'))), /no more/)
  assert.equal(embedded.server.revision, revision)
})

test('the server reports its version, API versions, groups and resources', async () => {
  const embedded = new Embedded()
  assert.match((await embedded.send('GET', '/version')).body.gitVersion, /^v1\.36\./)
  assert.deepEqual((await embedded.send('GET', '/api')).body.versions, ['v1'])
  const groups = (await embedded.send('GET', '/apis')).body.groups.map((group: { name: string }) => group.name)
  assert.deepEqual(groups, [
    'apiextensions.k8s.io',
    'authorization.k8s.io',
    'coordination.k8s.io',
    'discovery.k8s.io',
    'events.k8s.io',
    'networking.k8s.io',
  ])
  const { body } = await embedded.send('GET', '/apis/networking.k8s.io/v1')
  assert.equal(body.groupVersion, 'networking.k8s.io/v1')
  assert.deepEqual(
    body.resources.map((resource: { name: string }) => resource.name),
    ['ipaddresses', 'servicecidrs', 'servicecidrs/status'],
  )
  assert.equal((await embedded.send('GET', '/apis/networking.k8s.io')).body.preferredVersion.version, 'v1')
})

test('readyz fails when any check fails; livez depends on ping only', async () => {
  const embedded = new Embedded()
  assert.deepEqual(await embedded.send('GET', '/readyz'), { status: 200, body: 'ok' })
  embedded.server.health.set('etcd', false)
  embedded.server.health.set('poststarthook/mine', true)
  const expected =
    '[+]ping ok\n[-]etcd failed: reason withheld\n[+]informer-sync ok\n[+]service-allocators ok\n[+]shutdown ok\n[+]poststarthook/mine ok\nreadyz check failed\n'
  assert.deepEqual(await embedded.send('GET', '/readyz'), { status: 500, body: expected })
  assert.deepEqual(await embedded.send('GET', '/livez?verbose'), {
    status: 200,
    body: '[+]ping ok\nlivez check passed\n',
  })
  assert.deepEqual(await embedded.send('GET', '/healthz'), { status: 200, body: 'ok' })
})

test('the same seed and the same requests produce the same objects', async () => {
  const play = async () => {
    const embedded = await Embedded.started()
    for (const name of ['a', 'b']) {
      await embedded.send('POST', '/api/v1/namespaces/default/services', {
        metadata: { generateName: name },
        spec: { type: 'NodePort', ports: [{ port: 1 }] },
      })
      await embedded.time.advance(1500)
    }
    return JSON.stringify((await embedded.send('GET', '/api/v1/services')).body)
  }
  assert.equal(await play(), await play())
})

test('every kind of write refuses a body nested 20,000 levels deep', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', path, endpoints('a'))
  let deep: unknown = 1
  let list: unknown = 1
  for (let depth = 0; depth < 20_000; depth++) [deep, list] = [{ a: deep }, [list]]
  const requests = [
    ['POST', path, { ...endpoints('b'), deep }, undefined],
    ['POST', path, { ...endpoints('b'), list }, undefined],
    ['POST', path, { ...endpoints('b'), metadata: deep }, undefined],
    ['PUT', `${path}/a`, { ...endpoints('a'), deep }, undefined],
    ['PATCH', `${path}/a`, { deep }, 'application/merge-patch+json'],
    ['PATCH', `${path}/a`, { list }, 'application/merge-patch+json'],
    ['PATCH', `${path}/a`, [{ op: 'add', path: '/deep', value: deep }], 'application/json-patch+json'],
    [
      'PATCH',
      `${path}/a`,
      { ...endpoints('a'), apiVersion: 'v1', kind: 'Endpoints', deep },
      'application/apply-patch+yaml',
    ],
  ] as const
  for (const [method, at, body, type] of requests) {
    const answer = await embedded.send(
      method,
      type === 'application/apply-patch+yaml' ? `${at}?fieldManager=m` : at,
      body,
      type,
    )
    assert.equal(answer.status, 400, `${method} ${type}`)
    assert.equal(answer.body.reason, 'BadRequest')
    assert.match(answer.body.message, /: json: exceeded max depth$/)
  }
  const steps = [{ op: 'test', path: '/a'.repeat(20_000), value: deep }]
  assert.equal((await embedded.send('PATCH', `${path}/a`, steps, 'application/json-patch+json')).status, 422)
  const unread = [{ op: 'add', path: '/unknown', value: 1, deep }]
  const strict = `${path}/a?fieldValidation=Strict`
  assert.equal((await embedded.send('PATCH', strict, unread, 'application/json-patch+json')).status, 400)
  const test = [{ op: 'test', path: '/metadata', value: deep }]
  assert.equal((await embedded.send('PATCH', `${path}/a`, test, 'application/json-patch+json')).status, 400)
  assert.equal((await embedded.send('GET', `${path}/a`)).body.deep, undefined)
})

const request = { method: 'GET', path: '/version', query: [], headers: {} } as const

test('the readiness probe reports each check by name', async () => {
  const { server } = new Embedded()
  const readiness = inProcessReadiness(server)
  const { signal } = new AbortController()
  server.health.set('poststarthook/mine', false)
  assert.deepEqual(await readiness.probe(signal), {
    answered: true,
    ready: false,
    checks: [
      { name: 'ping', ok: true },
      { name: 'etcd', ok: true },
      { name: 'informer-sync', ok: true },
      { name: 'service-allocators', ok: true },
      { name: 'shutdown', ok: true },
      { name: 'poststarthook/mine', ok: false },
    ],
  })
  server.health.set('poststarthook/mine', true)
  const answer = await readiness.probe(signal)
  assert.ok(answer.answered && answer.ready)
})

test('a probe with an aborted signal rejects with the abort reason', async () => {
  const readiness = inProcessReadiness(new Embedded().server)
  await assert.rejects(readiness.probe(AbortSignal.abort(new Error('enough'))), /enough/)
})

test('a closed transport rejects requests; another transport of the same server still works', async () => {
  const { server } = new Embedded()
  const one = inProcessTransport(server)
  const two = inProcessTransport(server)
  await one.close()
  const { signal } = new AbortController()
  await assert.rejects(one.send(request, signal), { name: 'KubeError', code: 'Unreachable' })
  assert.equal((await two.send(request, signal)).status, 200)
})
