import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ReadyzResponder, type RealReadyz } from '../../../src/drill/live/readyz-responder.ts'
import { RequestFaults } from '../../../src/drill/request-faults.ts'
import { parseReadinessChecks } from '../../../src/kube/http-readiness.ts'
import { untilPasses } from '../../peers/until.ts'

const real: RealReadyz = async () => ({ status: 200, text: '[+]ping ok\n[+]log ok\n' })

test('the responder passes on the real /readyz, and reports each answer with the process that received it', async (t) => {
  const { responder, answered } = await open(t, real)
  assert.deepEqual(await ask(responder, 1), { status: 200, text: '[+]ping ok\n[+]log ok\n' })
  responder.answer = 'unready'
  await ask(responder, 2)
  assert.deepEqual(answered, [
    [1, true],
    [2, false],
  ])
})

test('a request target that names another server is refused and does not count as a probe', async (t) => {
  const { responder, answered } = await open(t, real)
  for (const path of ['//1/readyz', '//[', 'http://127.0.0.1/1/readyz']) {
    const [response] = await once(get({ host: '127.0.0.1', port: responder.port, path, agent: false }), 'response')
    response.resume()
    assert.equal(response.statusCode, 400, path)
  }
  assert.deepEqual(answered, [])
})

test('the responder can be set to fail, to fail only its etcd checks, and to hang', async (t) => {
  const { responder } = await open(t, real)
  const failing = async (): Promise<readonly string[]> => {
    const { status, text } = await ask(responder, 1)
    assert.equal(status, 500)
    return parseReadinessChecks(text).flatMap(({ name, ok }) => (ok ? [] : [name]))
  }
  responder.answer = 'unready'
  assert.deepEqual(await failing(), ['ping'])
  responder.answer = 'etcd-fails'
  assert.deepEqual(await failing(), ['etcd', 'etcd-readiness'])
  responder.answer = 'ready'
  responder.store = 'fails'
  assert.deepEqual(await failing(), ['etcd', 'etcd-readiness'])
  responder.store = 'hangs'
  const late = failing()
  assert.equal(await Promise.race([late, sleep(150, 'nothing')]), 'nothing')
  assert.deepEqual(await late, ['etcd', 'etcd-readiness'])
  responder.answer = 'hangs'
  const answer = ask(responder, 1).catch(() => 'cut off')
  assert.equal(await Promise.race([answer, sleep(150, 'nothing')]), 'nothing')
  await responder.close()
  assert.equal(await answer, 'cut off')
})

test('a probe that still waits when the hang ends is answered, and one that has disconnected is not', async (t) => {
  const { responder, answered } = await open(t, real)
  responder.answer = 'hangs'
  const patient = ask(responder, 1)
  const gone = get({ host: '127.0.0.1', port: responder.port, path: '/2/readyz', agent: false })
  gone.on('error', () => {})
  await untilPasses('both to wait', () => assert.equal(responder.waitingCount, 2), { withinMs: 10_000 })
  gone.destroy()
  await untilPasses('one to be gone', () => assert.equal(responder.waitingCount, 1), { withinMs: 10_000 })
  responder.answer = 'ready'
  assert.equal((await patient).status, 200)
  assert.deepEqual(answered, [[1, true]])
})

test('the request faults of the sidecar apply to its probes', async (t) => {
  const { responder, answered, faults } = await open(t, real)
  faults.add({ fault: { type: 'status', status: 503 }, only: 'probe', requests: 1 })
  assert.equal((await ask(responder, 1)).status, 503)
  faults.add({ fault: { type: 'hang' }, only: 'api' })
  assert.equal((await ask(responder, 1)).status, 200)
  assert.deepEqual(answered, [[1, true]])
})

test('the responder does not answer if the real /readyz does not', async (t) => {
  const { responder, answered } = await open(t, () => Promise.reject(new Error('away')))
  await assert.rejects(ask(responder, 1), /socket hang up/)
  assert.deepEqual(answered, [])
})

async function open(
  t: TestContext,
  real: RealReadyz,
): Promise<{
  readonly responder: ReadyzResponder
  readonly answered: readonly (readonly [number, boolean])[]
  readonly faults: RequestFaults
}> {
  const answered: (readonly [number, boolean])[] = []
  const onAnswer = (life: number, ready: boolean) => void answered.push([life, ready])
  const faults = new RequestFaults()
  const responder = await ReadyzResponder.open({ real, onAnswer, faults })
  t.after(() => responder.close())
  return { responder, answered, faults }
}

function ask({ port }: ReadyzResponder, life: number): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path: `/${life}/readyz?verbose=true`, agent: false }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    request.on('error', reject)
  })
}
