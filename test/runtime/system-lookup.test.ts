import assert from 'node:assert/strict'
import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import { type TestContext, test } from 'node:test'
import { nameLookup } from '../../src/runtime/system-lookup.ts'

type Answer = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void

const first = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]
const second = [{ address: '127.0.0.2', family: 4 }]

/** A lookup, and the questions that the system has not answered. */
function begin(t: TestContext) {
  const open: { readonly hostname: string; readonly answer: Answer }[] = []
  t.mock.method(dns, 'lookup', (hostname: string, { family, ...options }: LookupOptions, answer: Answer) => {
    assert.ok(family === undefined || family === 4 || family === 6)
    assert.deepEqual(options, { all: true, hints: 0 })
    open.push({ hostname, answer })
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const time = { nowMs: 0 }
  const lookup = nameLookup(() => time.nowMs)
  const ask = (hostname = 'api.test'): Promise<readonly LookupAddress[]> =>
    new Promise((resolve, reject) => {
      lookup(hostname, { all: true, hints: 0 }, (error, addresses) => {
        if (error === null) resolve(addresses as readonly LookupAddress[])
        else reject(error)
      })
    })
  /** Answers the oldest question with addresses or an error. */
  const answer = (given: readonly LookupAddress[] | string): void => {
    const question = open.shift()
    assert.ok(question)
    if (typeof given === 'string') question.answer(Object.assign(new Error(given), { code: given }), [])
    else question.answer(null, given)
  }
  /** Asks, and answers at once. */
  const asked = (given: readonly LookupAddress[] | string): Promise<readonly LookupAddress[]> => {
    const result = ask()
    answer(given)
    return result
  }
  return { time, lookup, open, ask, answer, asked }
}

test('each lookup returns the current answer of the system', async (t) => {
  const { asked } = begin(t)
  assert.deepEqual(await asked(first), first)
  assert.deepEqual(await asked(second), second)
})

test('a caller that wants one address receives it with its family', async (t) => {
  const { lookup, answer } = begin(t)
  const { promise, resolve } = Promise.withResolvers<unknown>()
  lookup('api.test', { hints: 0 }, (error, address, family) => resolve([error, address, family]))
  answer(first)
  assert.deepEqual(await promise, [null, '127.0.0.1', 4])
})

test('while the system fails, a lookup returns the last addresses of that name, but not of another name', async (t) => {
  const { ask, answer, asked } = begin(t)
  await assert.rejects(asked('EAI_AGAIN'), { code: 'EAI_AGAIN' })
  await asked(first)
  assert.deepEqual(await asked('EAI_AGAIN'), first)
  assert.deepEqual(await asked('EAI_FAIL'), first)
  const other = ask('other.test')
  answer('EAI_AGAIN')
  await assert.rejects(other, { code: 'EAI_AGAIN' })
})

test('after 500 ms without an answer a lookup returns the last addresses; later lookups use the late answer', async (t) => {
  const { ask, answer, asked, open } = begin(t)
  await asked(first)
  const late: unknown[] = []
  for (let number = 0; number < 5; number++) void ask().then((addresses) => late.push(addresses))
  t.mock.timers.tick(499)
  await Promise.resolve()
  assert.deepEqual(late, [])
  t.mock.timers.tick(1)
  await new Promise(setImmediate)
  assert.deepEqual(late, Array(5).fill(first))
  assert.deepEqual(open.length, 1, 'concurrent lookups of a name share one request')
  answer(second)
  assert.deepEqual(await asked('EAI_AGAIN'), second)
})

test('an error that arrives after 500 ms does not fail the lookup', async (t) => {
  const { ask, answer, asked } = begin(t)
  await asked(first)
  const late: unknown[] = []
  ask().then(
    (addresses) => late.push(addresses),
    (error) => late.push(error),
  )
  t.mock.timers.tick(500)
  await new Promise(setImmediate)
  answer('EAI_AGAIN')
  await new Promise(setImmediate)
  assert.deepEqual(late, [first])
})

test('the answer that a name does not exist counts as a failure, because parts of DNS may have failed', async (t) => {
  const { asked } = begin(t)
  await assert.rejects(asked('ENOTFOUND'), { code: 'ENOTFOUND' })
  await asked(first)
  assert.deepEqual(await asked('ENOTFOUND'), first)
  assert.deepEqual(await asked('EAI_AGAIN'), first)
  assert.deepEqual(await asked(second), second)
  assert.deepEqual(await asked('ENOTFOUND'), second)
})

test('a process that has not resolved a name for a month still has its last addresses', async (t) => {
  const { time, asked } = begin(t)
  await asked(first)
  time.nowMs += 30 * 24 * 3_600_000
  assert.deepEqual(await asked('EAI_AGAIN'), first)
})

test('an answer without addresses counts as a failure', async (t) => {
  const { asked } = begin(t)
  await assert.rejects(asked([]), { code: 'ENODATA', message: 'no address for api.test' })
  await asked(first)
  assert.deepEqual(await asked([]), first)
})

test('each address family has its own last addresses', async (t) => {
  const { lookup, answer } = begin(t)
  const ask = (family: number): Promise<unknown> =>
    new Promise((resolve) => lookup('api.test', { hints: 0, family }, (error, address) => resolve(error ?? address)))
  const four = ask(4)
  answer(second)
  assert.equal(await four, '127.0.0.2')
  const six = ask(6)
  answer('EAI_AGAIN')
  assert.match(String(await six), /EAI_AGAIN/)
})

test('after 10 s a second lookup starts, which may succeed before the first; a third never starts', async (t) => {
  const { time, ask, answer, open } = begin(t)
  const results: unknown[] = []
  const begun = (): void => {
    ask().then(
      (addresses) => results.push(addresses),
      (error: NodeJS.ErrnoException) => results.push(error.code),
    )
  }
  begun()
  time.nowMs = 9_999
  begun()
  assert.equal(open.length, 1)
  time.nowMs = 10_000
  begun()
  assert.equal(open.length, 2)
  time.nowMs = 30_000
  begun()
  assert.equal(open.length, 2)
  open.reverse()
  answer(first)
  await new Promise(setImmediate)
  assert.deepEqual(results, [first, first])
  answer('EAI_AGAIN')
  await new Promise(setImmediate)
  assert.deepEqual(results, [first, first, 'EAI_AGAIN', 'EAI_AGAIN'])
  begun()
  assert.equal(open.length, 1, 'a lookup that has ended is not shared')
})

test('a lookup that throws fails only its own caller', async (t) => {
  const thrown = t.mock.method(dns, 'lookup', () => {
    throw Object.assign(new Error('bad name'), { code: 'ERR_INVALID_ARG_VALUE' })
  })
  const lookup = nameLookup()
  const error = await new Promise((resolve) => lookup('api.test', { all: true }, resolve))
  assert.match(String(error), /bad name/)
  assert.match(String(await new Promise((resolve) => lookup('api.test', { all: true }, resolve))), /bad name/)
  assert.equal(thrown.mock.callCount(), 2)
})

test('an answer clears the timer of its lookup', async (t) => {
  const { asked } = begin(t)
  await asked(first)
  const cleared = t.mock.method(globalThis, 'clearTimeout')
  await asked(second)
  assert.equal(cleared.mock.callCount(), 1)
})
