import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type FaultRule, faultyTransport } from '../../src/apiserver/faults.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import { endpoints } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { heapBytes } from '../support/heap.ts'
import { Embedded } from './embedded.ts'

const ref = { namespace: 'default', name: 'a' }

async function faulty(...rules: readonly FaultRule[]) {
  const embedded = await Embedded.started()
  const { clock, time } = embedded
  await embedded.api.create(endpoints, { metadata: ref })
  const transport = faultyTransport(embedded.transport, { clock, random: seededRandom(1, 'faults') })
  for (const rule of rules) transport.faults.add(rule)
  const options = { transport, clock, random: seededRandom(1, 'client'), retry: { attempts: 1 } }
  return { embedded, time, faults: transport.faults, transport, api: restKubeApi(options) }
}

/** The outcome of a call: the code of its error, or `ok`; undefined while it is under way. */
function outcomeOf(promise: Promise<unknown>): { readonly code: string | undefined } {
  const outcome: { code: string | undefined } = { code: undefined }
  promise.then(
    () => {
      outcome.code = 'ok'
    },
    (error: unknown) => {
      outcome.code = isKubeError(error) ? error.code : String(error)
    },
  )
  return outcome
}

function follow(api: KubeApi, signal: AbortSignal, resourceVersion = '0') {
  const received: string[] = []
  const outcome = outcomeOf(
    (async () => {
      for await (const event of api.watch(endpoints, { namespace: 'default', resourceVersion, signal })) {
        received.push(`${event.type} ${event.type === 'ERROR' ? '' : event.object.metadata?.name}`)
      }
    })(),
  )
  return { received, outcome }
}

test('without rules requests pass through', async () => {
  const { api } = await faulty()
  assert.equal((await api.get(endpoints, ref)).metadata?.name, 'a')
})

test('a refused request fails at once and does not reach the server', async () => {
  const { api, embedded, time } = await faulty({ fault: { type: 'refuse' }, methods: ['DELETE'] })
  const outcome = outcomeOf(api.delete(endpoints, ref))
  await time.advance(0)
  assert.equal(outcome.code, 'Unreachable')
  assert.equal((await embedded.api.get(endpoints, ref)).metadata?.name, 'a')
})

test('a removed or used-up rule is garbage-collected', { timeout: 60_000 }, async () => {
  const { faults, api } = await faulty()
  const add = (remove: boolean): WeakRef<FaultRule> => {
    const rule: FaultRule = { fault: { type: 'refuse' }, times: 1 }
    const removed = faults.add(rule)
    if (remove) removed()
    return new WeakRef(rule)
  }
  const forgotten = [add(true), add(false)]
  const outcome = outcomeOf(api.get(endpoints, ref))
  await setImmediate()
  assert.equal(outcome.code, 'Unreachable')
  heapBytes()
  assert.deepEqual(
    forgotten.map((rule) => rule.deref()),
    [undefined, undefined],
  )
})

test('both a lost request and a lost answer time out; only the lost answer executes the request', async () => {
  for (const lost of ['request', 'answer'] as const) {
    const { api, embedded, time } = await faulty({ fault: { type: 'drop', lost } })
    const outcome = outcomeOf(api.delete(endpoints, ref))
    await time.advance(9_999)
    assert.equal(outcome.code, undefined)
    await time.advance(1)
    assert.equal(outcome.code, 'Timeout')
    const after = outcomeOf(embedded.api.get(endpoints, ref))
    await time.advance(0)
    assert.equal(after.code, lost === 'request' ? 'ok' : 'NotFound')
  }
})

test('the abort signal cancels a lost request', async () => {
  const { api, time } = await faulty({ fault: { type: 'drop', lost: 'request' } })
  const controller = new AbortController()
  const outcome = outcomeOf(api.get(endpoints, ref, { signal: controller.signal }))
  await time.advance(1)
  controller.abort(new Error('enough'))
  await time.advance(0)
  assert.equal(outcome.code, 'Error: enough')
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
})

test('a delayed request succeeds after its delay; a delay beyond the timeout fails with Timeout', async () => {
  const { api, time, faults } = await faulty({ fault: { type: 'delay', ms: 300 } })
  const outcome = outcomeOf(api.get(endpoints, ref))
  await time.advance(299)
  assert.equal(outcome.code, undefined)
  await time.advance(1)
  assert.equal(outcome.code, 'ok')
  faults.add({ fault: { type: 'delay', ms: 9_700 } })
  const late = outcomeOf(api.get(endpoints, ref))
  await time.advance(10_000)
  assert.equal(late.code, 'Timeout')
})

test('a status fault answers in place of the server', async () => {
  const codes = {
    429: 'TooManyRequests',
    500: 'ServerError',
    410: 'Expired',
    401: 'Unauthorized',
    503: 'ServerError',
  } as const
  for (const [status, code] of Object.entries(codes)) {
    const { api, time } = await faulty({ fault: { type: 'status', status: Number(status) } })
    const outcome = outcomeOf(api.get(endpoints, ref))
    await time.advance(0)
    assert.equal(outcome.code, code)
  }
})

test('a 429 fault sends retry-after', async () => {
  const { transport } = await faulty({ fault: { type: 'status', status: 429, retryAfterSeconds: 7 } })
  const request = { method: 'GET', path: '/api/v1/endpoints', query: [], headers: {} } as const
  const response = await transport.send(request, new AbortController().signal)
  assert.equal(response.headers['retry-after'], '7')
})

test('a garbage answer fails with BadResponse', async () => {
  const { api, time } = await faulty({ fault: { type: 'garbage' } })
  const outcomes = [
    outcomeOf(api.get(endpoints, ref)),
    outcomeOf(api.list(endpoints)),
    follow(api, new AbortController().signal).outcome,
  ]
  await time.advance(0)
  assert.deepEqual(
    outcomes.map(({ code }) => code),
    ['BadResponse', 'BadResponse', 'BadResponse'],
  )
})

test('a rule applies by method, path prefix, stream, count and probability', async () => {
  const { api, time, faults } = await faulty()
  const fault = { type: 'refuse' } as const
  const codeOfGet = async () => {
    const outcome = outcomeOf(api.get(endpoints, ref))
    await time.advance(0)
    return outcome.code
  }
  faults.add({ fault, methods: ['POST'] })
  faults.add({ fault, pathPrefix: '/api/v1/namespaces/other/' })
  faults.add({ fault, stream: true })
  assert.equal(await codeOfGet(), 'ok')
  const remove = faults.add({ fault, times: 1 })
  assert.deepEqual([await codeOfGet(), await codeOfGet()], ['Unreachable', 'ok'])
  remove()
  faults.add({ fault, probability: 0.5 })
  const codes: (string | undefined)[] = []
  for (let i = 0; i < 200; i++) codes.push(await codeOfGet())
  const refused = codes.filter((code) => code === 'Unreachable').length
  assert.ok(refused > 60 && refused < 140, `${refused} of 200`)
  faults.clear()
  assert.equal(await codeOfGet(), 'ok')
})

test('a rule for streams is counted by a stream that opens, not by a list or by a watch that is refused', async () => {
  const { api, time } = await faulty(
    { fault: { type: 'cut', afterEvents: 0 }, times: 1 },
    { fault: { type: 'status', status: 503 }, stream: true, times: 1 },
  )
  const listed = outcomeOf(api.list(endpoints))
  await time.advance(0)
  assert.equal(listed.code, 'ok')
  const controller = new AbortController()
  const codes: (string | undefined)[] = []
  for (let watch = 0; watch < 3; watch++) {
    const { outcome } = follow(api, controller.signal)
    await time.advance(0)
    codes.push(outcome.code)
  }
  assert.deepEqual(codes, ['ServerError', 'Unreachable', undefined])
  controller.abort()
  await time.advance(0)
})

test('each rule with a count causes its own fault, even if a request matches several rules', async () => {
  const { api, embedded, time } = await faulty(
    { fault: { type: 'refuse' }, times: 1 },
    { fault: { type: 'drop', lost: 'answer' }, times: 1 },
    { fault: { type: 'garbage' }, times: 1 },
    { fault: { type: 'status', status: 503 }, times: 1 },
    { fault: { type: 'lose' }, times: 1 },
    { fault: { type: 'lose' }, times: 1 },
  )
  const codes: (string | undefined)[] = []
  for (let request = 0; request < 5; request++) {
    const outcome = outcomeOf(api.get(endpoints, ref))
    await time.advance(10_000)
    codes.push(outcome.code)
  }
  assert.deepEqual(codes, ['Unreachable', 'Timeout', 'BadResponse', 'ServerError', 'ok'])
  const controller = new AbortController()
  const { received } = follow(api, controller.signal)
  for (const name of ['b', 'c']) await embedded.api.create(endpoints, { metadata: { namespace: 'default', name } })
  await time.advance(0)
  assert.deepEqual(received, ['ADDED c'])
  controller.abort()
  await time.advance(0)
})

test('a stream breaks, ends or stalls after the number of events in the rule', async () => {
  for (const [type, code] of [
    ['cut', 'Unreachable'],
    ['end', 'ok'],
    ['stall', undefined],
  ] as const) {
    const { api, embedded, time } = await faulty({ fault: { type, afterEvents: 2 } })
    const controller = new AbortController()
    const { received, outcome } = follow(api, controller.signal)
    await time.advance(0)
    assert.deepEqual([received, outcome.code], [['ADDED a'], undefined])
    for (const name of ['b', 'c']) await embedded.api.create(endpoints, { metadata: { namespace: 'default', name } })
    await time.advance(0)
    assert.deepEqual([received, outcome.code], [['ADDED a', 'ADDED b'], code])
    controller.abort()
    await time.advance(0)
    assert.equal(outcome.code, code ?? 'ok')
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  }
})

test('a lose rule drops one change, even on a stream already open; later changes arrive', async () => {
  const { api, embedded, faults, time } = await faulty()
  const controller = new AbortController()
  const { received, outcome } = follow(api, controller.signal)
  await time.advance(0)
  const remove = faults.add({ fault: { type: 'lose' }, pathPrefix: '/api/v1/namespaces/default/endpoints', times: 1 })
  for (const name of ['b', 'c']) await embedded.api.create(endpoints, { metadata: { namespace: 'default', name } })
  await time.advance(0)
  assert.deepEqual([received, outcome.code], [['ADDED a', 'ADDED c'], undefined])
  remove()
  controller.abort()
  await time.advance(0)
})

test('a delay rule delays each event of a stream and preserves their order', async () => {
  const { api, embedded, time } = await faulty({ fault: { type: 'delay', ms: 100 } })
  const controller = new AbortController()
  const { received } = follow(api, controller.signal)
  await embedded.api.create(endpoints, { metadata: { namespace: 'default', name: 'b' } })
  await time.advance(299)
  assert.deepEqual(received, ['ADDED a'])
  await time.advance(1)
  assert.deepEqual(received, ['ADDED a', 'ADDED b'])
  controller.abort()
  await time.advance(0)
})

test('in a partition requests hang; those not yet timed out, and watch events, arrive when it heals', async () => {
  const { api, embedded, faults, time } = await faulty()
  const controller = new AbortController()
  const { received, outcome } = follow(api, controller.signal)
  await time.advance(0)
  faults.partition()
  assert.equal(faults.partitioned, true)
  await embedded.api.create(endpoints, { metadata: { namespace: 'default', name: 'b' } })
  const given = outcomeOf(api.get(endpoints, ref))
  await time.advance(9_600)
  const waiting = outcomeOf(api.get(endpoints, ref))
  await time.advance(500)
  assert.deepEqual([given.code, waiting.code, received], ['Timeout', undefined, ['ADDED a']])
  faults.heal()
  await time.advance(0)
  assert.deepEqual([waiting.code, received, outcome.code], ['ok', ['ADDED a', 'ADDED b'], undefined])
  controller.abort()
  await time.advance(0)
  assert.equal(outcome.code, 'ok')
})

test('resetStreams breaks every open stream; a request under way and later ones succeed', async () => {
  const { api, faults, time } = await faulty({ fault: { type: 'delay', ms: 100 }, stream: false, times: 1 })
  const controller = new AbortController()
  const one = follow(api, controller.signal)
  const two = follow(api, controller.signal)
  const underWay = outcomeOf(api.get(endpoints, ref))
  await time.advance(0)
  faults.resetStreams()
  await time.advance(0)
  assert.deepEqual([one.outcome.code, two.outcome.code], ['Unreachable', 'Unreachable'])
  assert.equal(underWay.code, undefined)
  await time.advance(100)
  assert.equal(underWay.code, 'ok')
  assert.equal((await api.get(endpoints, ref)).metadata?.name, 'a')
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
})

test('a partition holds back the answer to a request already under way', async () => {
  const { embedded, time, transport: slow, faults } = await faulty({ fault: { type: 'delay', ms: 100 } })
  const transport = faultyTransport(slow, { clock: embedded.clock, random: seededRandom(1, 'outer') })
  const request = { method: 'GET', path: '/version', query: [], headers: {} } as const
  const outcome = outcomeOf(transport.send(request, new AbortController().signal))
  await time.advance(50)
  transport.faults.partition()
  await time.advance(100)
  assert.equal(outcome.code, undefined)
  transport.faults.heal()
  await time.advance(0)
  assert.equal(outcome.code, 'ok')
  assert.equal(faults.partitioned, false)
})

test('a stream whose signal is aborted ends without an error', async () => {
  const { transport, time } = await faulty()
  const controller = new AbortController()
  const path = '/api/v1/namespaces/default/endpoints'
  const query = [['watch', 'true']] as const
  const response = await transport.send({ method: 'GET', path, query, headers: {}, stream: true }, controller.signal)
  assert.ok('stream' in response)
  const { stream } = response
  const outcome = outcomeOf(
    (async () => {
      for await (const _ of stream);
    })(),
  )
  await time.advance(0)
  assert.equal(outcome.code, undefined)
  controller.abort()
  await time.advance(0)
  assert.equal(outcome.code, 'ok')
})

test('adding a rule that could never apply throws TypeError', () => {
  const { faults } = faultyTransport({} as never, { clock: new VirtualClock().view(), random: { next: () => 0 } })
  const refused = (rule: object, message: RegExp): void =>
    assert.throws(() => faults.add(rule as never), { name: 'TypeError', message })
  refused({}, /^fault.type must be one of delay, drop, /)
  refused({ fault: { type: 'bogus' } }, /^fault.type must be one of/)
  refused(
    { fault: { type: 'delay', delayMs: 50 } },
    /^invalid rule with fault delay: ms must be a number of at least 0$/,
  )
  refused({ fault: { type: 'status', status: 7 } }, /status must be a number from 100 to 599/)
  refused({ fault: { type: 'drop', lost: 'x' } }, /lost must be/)
  refused({ fault: { type: 'refuse' }, probability: 10 }, /probability must be a number from 0 to 1/)
  refused(
    { fault: { type: 'refuse' }, methods: ['get'] },
    /^invalid rule with fault refuse: methods contains get; known methods: GET, /,
  )
  refused({ fault: { type: 'refuse' }, methods: 'GET' }, /methods must be a list of GET, /)
  refused({ fault: { type: 'refuse' }, methods: [] }, /methods must be a list of GET, /)
  refused({ fault: { type: 'refuse' }, times: 0 }, /times must be a number of at least 1$/)
  refused({ fault: { type: 'refuse' }, pathPrefix: 'api/v1/nodes' }, /pathPrefix must be a string that begins with \/$/)
  refused(
    { fault: { type: 'refuse' }, method: ['GET'] },
    /^invalid rule with fault refuse: method is not a field; known fields: fault, meth/,
  )
  refused(
    { fault: { type: 'refuse', ms: 5 } },
    /^invalid rule with fault refuse: ms is not a field; known fields: none$/,
  )
  refused(
    { fault: { type: 'status', status: 429, retryAfter: 1 } },
    /retryAfter is not a field; known fields: status, retryA/,
  )
  refused({ fault: { type: 'refuse' }, stream: 'yes' }, /stream must be true or false$/)
  for (const fault of [{ type: 'lose' }, { type: 'cut', afterEvents: 1 }]) {
    refused({ fault, stream: false }, /with stream: false it matches no watch, but its fault affects only watches$/)
  }
  faults.add({ fault: { type: 'refuse' }, methods: ['GET', 'HEAD'], stream: false, probability: 0.5, times: 2 })
})
