import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReadinessAnswer } from '../../../src/kube/readiness.ts'
import { isFailing, neverReady, nextReadiness } from '../../../src/kubernetes-service/membership/readiness.ts'

const ok: ReadinessAnswer = { answered: true, ready: true, checks: [] }
const silent: ReadinessAnswer = { answered: false, reason: 'connection refused' }
const failing = (...names: string[]): ReadinessAnswer => ({
  answered: true,
  ready: false,
  checks: [{ name: 'ping', ok: true }, ...names.map((name) => ({ name, ok: false }))],
})

const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: 'HTTP status 401' }

function phases(answers: readonly (readonly [atMs: number, answer: ReadinessAnswer])[]): string[] {
  let state = neverReady
  return answers.map(([atMs, answer]) => {
    state = nextReadiness(state, answer, atMs)
    return state.phase
  })
}

test('a master is ready at the first success, and not before', () => {
  assert.deepEqual(
    phases([
      [0, silent],
      [100, failing('x')],
      [200, failing('etcd')],
      [300, ok],
    ]),
    ['starting', 'starting', 'starting', 'ready'],
  )
})

test('a server is unready after three failures over at least three seconds', () => {
  assert.deepEqual(
    phases([
      [0, ok],
      [1_000, silent],
      [2_000, silent],
      [3_000, failing('x')],
      [4_000, silent],
    ]),
    ['ready', 'ready', 'ready', 'ready', 'unready'],
  )
  assert.equal(
    phases([
      [0, ok],
      [1_000, silent],
      [5_000, silent],
    ]).at(-1),
    'ready',
    'two failures do not make a server unready',
  )
})

test('one success between failures starts the count again', () => {
  assert.equal(
    phases([
      [0, ok],
      [1_000, silent],
      [2_000, silent],
      [3_000, ok],
      [4_000, silent],
      [5_000, silent],
    ]).at(-1),
    'ready',
  )
})

test('an unready server is ready again after two seconds of success without a break', () => {
  const down = [
    [0, ok],
    [1_000, silent],
    [2_000, silent],
    [4_000, silent],
  ] as const
  assert.equal(phases([...down, [5_000, ok], [6_000, ok]]).at(-1), 'unready')
  assert.equal(phases([...down, [5_000, ok], [6_000, ok], [7_000, ok]]).at(-1), 'ready')
  assert.equal(phases([...down, [5_000, ok], [6_000, silent], [7_000, ok]]).at(-1), 'unready')
})

test('two hanging probes during a recovery do not yet count as a failure', () => {
  let state = neverReady
  const after = (...answers: readonly (readonly [atMs: number, answer: ReadinessAnswer])[]): boolean => {
    for (const [atMs, answer] of answers) state = nextReadiness(state, answer, atMs)
    return isFailing(state, answers.at(-1)?.[0] ?? 0)
  }
  assert.equal(after([0, ok], [1_000, silent], [2_000, silent], [4_000, silent]), true)
  assert.equal(after([5_000, ok], [9_000, silent], [13_000, silent]), false)
  assert.equal(after([16_000, silent]), true)
})

test('a server that alternates between silence and errors fails all the time, whatever came first', () => {
  for (const [one, two] of [
    [failing('etcd'), silent],
    [silent, failing('etcd')],
  ] as const) {
    let state = nextReadiness(neverReady, ok, 0)
    for (let second = 1; second <= 20; second++) {
      state = nextReadiness(state, second % 2 === 1 ? one : two, second * 1_000)
      if (second >= 10) assert.equal(isFailing(state, second * 1_000), true, `second ${second}`)
    }
  }
})

test('a server that was only silent gets the full time again when it answers, and again after each success', () => {
  let state = nextReadiness(neverReady, ok, 0)
  const after = (...answers: readonly (readonly [second: number, answer: ReadinessAnswer])[]): boolean => {
    for (const [second, answer] of answers) state = nextReadiness(state, answer, second * 1_000)
    return isFailing(state, (answers.at(-1)?.[0] ?? 0) * 1_000)
  }
  assert.equal(after([1, silent], [2, silent], [4, silent]), true)
  assert.equal(after([5, failing('x')], [7, failing('x')]), false)
  assert.equal(after([8, failing('x')]), true)
  assert.equal(after([9, ok], [10, silent], [11, silent], [13, silent]), true)
  assert.equal(after([14, failing('x')]), false)
})

test('a failing etcd check alone makes a server unready, as any other check does', () => {
  const etcd = failing('etcd', 'etcd-readiness')
  assert.deepEqual(
    phases([
      [0, ok],
      [1_000, etcd],
      [3_000, etcd],
      [4_000, etcd],
    ]),
    ['ready', 'ready', 'ready', 'unready'],
  )
})

test('an answer that refuses to state the readiness makes a server neither ready nor unready', () => {
  assert.equal(
    phases([
      [0, refused],
      [10_000, refused],
    ]).at(-1),
    'starting',
  )
  assert.equal(
    phases([
      [0, ok],
      [1_000, refused],
      [3_000, refused],
      [60_000, refused],
    ]).at(-1),
    'ready',
  )
  const down = [
    [0, ok],
    [1_000, silent],
    [2_000, silent],
    [4_000, silent],
  ] as const
  assert.equal(phases([...down, [5_000, refused], [10_000, refused]]).at(-1), 'unready')
})
