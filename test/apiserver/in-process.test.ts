import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inProcessReadiness, inProcessTransport } from '../../src/apiserver/in-process.ts'
import { Embedded } from './embedded.ts'

const request = { method: 'GET', path: '/version', query: [], headers: {} } as const

test('readiness tells each check by its name', async () => {
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
      { name: 'shutdown', ok: true },
      { name: 'poststarthook/mine', ok: false },
    ],
  })
  server.health.set('poststarthook/mine', true)
  const answer = await readiness.probe(signal)
  assert.ok(answer.answered && answer.ready)
})

test('a probe with an aborted signal rejects with its reason', async () => {
  const readiness = inProcessReadiness(new Embedded().server)
  await assert.rejects(readiness.probe(AbortSignal.abort(new Error('enough'))), /enough/)
})

test('a closed transport reaches nobody; another of the same server does', async () => {
  const { server } = new Embedded()
  const one = inProcessTransport(server)
  const two = inProcessTransport(server)
  await one.close()
  const { signal } = new AbortController()
  await assert.rejects(one.send(request, signal), { name: 'KubeError', code: 'Unreachable' })
  assert.equal((await two.send(request, signal)).status, 200)
})
