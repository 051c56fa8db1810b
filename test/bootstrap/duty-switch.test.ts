import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { type ControllerName, DutyDecisions, parseControllers } from '../../src/bootstrap/duties.ts'
import { DutyHealth } from '../../src/bootstrap/duty-health.ts'
import { DutySwitch } from '../../src/bootstrap/duty-switch.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

const NAMESPACES = 'poststarthook/start-system-namespaces-controller'
const BOOTSTRAP = 'poststarthook/bootstrap-controller'
const REPAIRS = 'poststarthook/start-service-ip-repair-controllers'
/** For how long the answers must lack a hook. */
const QUIET_MS = 60_000

interface Term {
  readonly only: readonly string[] | undefined
  readonly signal: AbortSignal
  /** Whether it was informed, before it ended, that the duty is decided. */
  readonly mayWrite: boolean
  readonly done: () => void
  readonly crash: (error: Error) => void
}

/** One duty, whose `terms` the test ends. A term ends with its signal unless `lingers` is pending. */
function setUp(
  t: { after(undo: () => Promise<void>): void },
  options: {
    controllers?: string
    name?: ControllerName
    reports?: boolean | undefined
    early?: boolean
    runs?: boolean
  } = {},
) {
  const { controllers = 'auto', name = 'system-namespaces', reports, early, runs = true } = options
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const handlers = new Set<(answer: ReadinessAnswer, sentAtMs: number) => void>()
  const monitor = {
    subscribe(handler: (answer: ReadinessAnswer, sentAtMs: number) => void) {
      handlers.add(handler)
      return () => void handlers.delete(handler)
    },
  }
  const decisions = new DutyDecisions({ selection: parseControllers(controllers.split(',')), monitor, clock })
  const gauge = (what: string) => metrics.gauge({ name: what, help: `Whether it is ${what}.`, labels: ['duty'] })
  const health = new DutyHealth({
    ...{ name, clock, logger, events: { record() {} }, degraded: gauge('degraded') },
    ...{ timeoutMs: 5_000, dryRun: false, refusal: () => undefined },
  })
  const terms: Term[] = []
  const lingers: { until?: Promise<void> } = {}
  const made = new DutySwitch({
    ...{
      name,
      reports,
      early,
      decisions,
      health,
      clock,
      random: seededRandom(1, 'duty'),
      logger,
      active: gauge('active'),
    },
    make(only, decided) {
      const settled = Promise.withResolvers<void>()
      const crashed = Promise.withResolvers<never>()
      crashed.promise.catch(() => {})
      return {
        settled: settled.promise,
        async run(signal) {
          const term = { only, signal, mayWrite: false, done: settled.resolve, crash: crashed.reject }
          void decided.then(() => (term.mayWrite = !signal.aborted))
          terms.push(term)
          await Promise.race([aborted(signal), crashed.promise])
          await lingers.until
        },
      }
    },
  })
  const stop = new AbortController()
  let ended: Promise<void> | undefined
  const begin = (): void => {
    ended = made.run(stop.signal)
  }
  if (runs) begin()
  const end = async (): Promise<void> => {
    stop.abort(new Error('the end'))
    await time.advance(0)
    await ended
  }
  t.after(end)
  /** The server answers, and lists these hooks. */
  const answer = async (...hooks: readonly string[]): Promise<void> => {
    const checks = hooks.map((hook) => ({ name: hook, ok: true }))
    for (const handler of handlers) handler({ answered: true, ready: true, checks } as ReadinessAnswer, 0)
    await time.advance(0)
  }
  /** The server gives this answer for a minute. */
  const answerForAMinute = async (...hooks: readonly string[]): Promise<void> => {
    for (let passedMs = 0; passedMs < QUIET_MS; passedMs += 10_000) {
      await answer(...hooks)
      await time.advance(10_000)
    }
    await answer(...hooks)
  }
  const refuse = async (): Promise<void> => {
    const refused = { answered: true, ready: false, checks: [], refused: 'forbidden' } as unknown as ReadinessAnswer
    for (const handler of handlers) handler(refused, 0)
    await time.advance(0)
  }
  const has = async (promise: Promise<void>): Promise<boolean> => {
    let settled = false
    void promise.then(() => (settled = true))
    await time.advance(0)
    return settled
  }
  const active = async () => Number(/^active\{duty="[a-z-]+"\} (\d)$/m.exec(await metrics.expose())?.[1] ?? Number.NaN)
  const logged = () => logger.lines.map(({ level, message }) => `${level} ${message}`)
  const running = () => terms.filter(({ signal }) => !signal.aborted).length
  return {
    ...{
      time,
      clock,
      health,
      terms,
      lingers,
      answer,
      answerForAMinute,
      refuse,
      active,
      logged,
      running,
      stop,
      ended,
      end,
    },
    made,
    begin,
    settled: () => has(made.settled()),
    known: () => has(made.known()),
  }
}

test('nothing is decided before the first answer, and a refusal does not count as one', async (t) => {
  const { time, terms, settled, known, active, refuse, answer, logged } = setUp(t)
  await time.advance(300_000)
  await refuse()
  assert.deepEqual([terms.length, await settled(), await known()], [0, false, false])
  assert.ok(Number.isNaN(await active()))
  assert.deepEqual(logged(), [])
  await answer()
  assert.deepEqual([terms.length, await active()], [1, 1])
})

test('an early term begins before the first answer, and may write once that answer leaves the duty to this process', async (t) => {
  const { time, terms, settled, active, refuse, answer } = setUp(t, { early: true })
  await time.advance(0)
  await refuse()
  assert.deepEqual(
    terms.map(({ mayWrite }) => mayWrite),
    [false],
  )
  assert.ok(Number.isNaN(await active()))
  await answer()
  assert.deepEqual(
    terms.map(({ mayWrite, signal }) => [mayWrite, signal.aborted]),
    [[true, false]],
  )
  assert.deepEqual([await active(), await settled()], [1, false])
})

test('an early term ends without a write if the server performs the duty, fully or except for some objects', async (t) => {
  const left = setUp(t, { early: true })
  await left.time.advance(0)
  await left.answer(NAMESPACES, BOOTSTRAP)
  assert.deepEqual(
    left.terms.map(({ mayWrite, signal }) => [mayWrite, signal.aborted]),
    [[false, true]],
  )
  const some = setUp(t, { early: true })
  await some.time.advance(0)
  await some.answer(NAMESPACES)
  assert.deepEqual(
    some.terms.map(({ only, mayWrite, signal }) => [only, mayWrite, signal.aborted]),
    [
      [undefined, false, true],
      [['kube-node-lease'], true, false],
    ],
  )
})

test('an answer from before the start counts, and a hook of another duty changes nothing', async (t) => {
  const { answer, terms, begin, logged, time } = setUp(t, { runs: false })
  await answer()
  assert.equal(terms.length, 0)
  begin()
  await time.advance(0)
  assert.equal(terms.length, 1)
  await answer(REPAIRS)
  assert.deepEqual([terms.length, logged()], [1, ['debug duty on']])
})

test('a duty that the server does not perform runs here, and is settled when it completes', async (t) => {
  const { terms, settled, known, answer, logged } = setUp(t)
  await answer(REPAIRS)
  assert.deepEqual(
    terms.map(({ only }) => only),
    [undefined],
  )
  assert.deepEqual(logged(), ['debug duty on'])
  assert.deepEqual([await settled(), await known()], [false, false])
  terms[0]?.done()
  assert.deepEqual([await settled(), await known()], [true, true])
})

test('a duty that is off is settled by the first answer, and never runs', async (t) => {
  const { made, terms, settled, known, active, answer, logged } = setUp(t, { controllers: 'auto,-system-namespaces' })
  assert.equal(await settled(), false)
  const before = made.settled()
  await answer()
  await before
  assert.deepEqual([await settled(), await known(), await active(), terms.length], [true, true, 0, 0])
  assert.deepEqual(logged(), ['debug duty off'])
  await answer(NAMESPACES)
  assert.equal(terms.length, 0)
})

test('a duty that the server performs is left to it, and runs here after a minute of answers without its hook', async (t) => {
  const { time, terms, settled, known, active, answer, answerForAMinute, logged } = setUp(t)
  await answer(NAMESPACES, BOOTSTRAP)
  assert.deepEqual([await settled(), await known(), await active(), terms.length], [true, true, 0, 0])
  await time.advance(300_000)
  await answerForAMinute(BOOTSTRAP)
  assert.deepEqual([await active(), terms.length], [1, 1])
  assert.deepEqual(logged(), [
    'info the server does this itself; leaving it to the server',
    'info the server has not done this itself for a minute; doing it here',
  ])
})

test('a running duty ends when a server performs it, and its fault is cleared', async (t) => {
  const { time, terms, active, answer, answerForAMinute, health, running, known, stop } = setUp(t)
  await answer()
  await time.advance(10_000)
  health.check({ away: false })
  await time.advance(10_000)
  health.check({ away: false })
  assert.match(health.fault() ?? '', /not completed/)
  assert.equal(await known(), true, 'a degraded duty is still known')
  await answer(NAMESPACES, BOOTSTRAP)
  assert.deepEqual([terms.length, running(), await active()], [1, 0, 0])
  assert.match(String(terms[0]?.signal.reason), /left to the server/)
  assert.equal(health.fault(), undefined)
  await time.advance(300_000)
  assert.equal(terms.length, 1)
  await answerForAMinute()
  assert.deepEqual([terms.length, running(), await active()], [2, 1, 1])
  assert.equal(getEventListeners(stop.signal, 'abort').length, 1, 'only the running term listens to the signal')
})

test('a degraded duty is known but not settled', async (t) => {
  const { terms, answer, settled, known } = setUp(t)
  await answer()
  terms[0]?.crash(new Error('a mistake'))
  assert.deepEqual([await settled(), await known()], [false, true])
})

test('the next term begins only after the previous one has ended', async (t) => {
  const { terms, answer, answerForAMinute, lingers } = setUp(t)
  const ending = Promise.withResolvers<void>()
  lingers.until = ending.promise
  await answer()
  await answer(NAMESPACES, BOOTSTRAP)
  await answerForAMinute()
  assert.equal(terms.length, 1)
  ending.resolve()
  await answer()
  assert.equal(terms.length, 2)
})

test('objects that the server leaves out are managed here, and nothing waits for them', async (t) => {
  const { terms, answer, answerForAMinute, running, active, settled, logged } = setUp(t)
  await answer(NAMESPACES)
  assert.deepEqual(
    terms.map(({ only }) => only),
    [['kube-node-lease']],
  )
  assert.deepEqual([await settled(), await active()], [true, 0])
  assert.deepEqual(logged(), ['info the server does this itself; leaving it to the server, except for kube-node-lease'])
  await answer(NAMESPACES)
  assert.equal(terms.length, 1, 'an equal answer changes nothing')
  await answer(NAMESPACES, BOOTSTRAP)
  assert.deepEqual([terms.length, running(), await active()], [1, 0, 0])
  await answerForAMinute(NAMESPACES)
  assert.deepEqual([terms.length, running()], [2, 1])
  assert.deepEqual(terms[1]?.only, ['kube-node-lease'])
  await answerForAMinute()
  assert.deepEqual([terms.length, running(), await active()], [3, 1, 1])
  assert.equal(terms[2]?.only, undefined)
  await answer(NAMESPACES)
  assert.deepEqual([terms.length, running(), await active()], [4, 1, 0])
  assert.deepEqual(terms[3]?.only, ['kube-node-lease'])
})

test('a reporting duty runs beside the server, and restarts only when it must repair', async (t) => {
  const { terms, answer, answerForAMinute, running, active, settled, logged } = setUp(t, {
    name: 'cluster-ip-repair',
    reports: true,
  })
  await answer(REPAIRS)
  assert.deepEqual([terms.length, await active(), await settled()], [1, 0, true])
  await answerForAMinute()
  assert.deepEqual([terms.length, running(), await active()], [2, 1, 1])
  await answer(REPAIRS)
  assert.deepEqual([terms.length, running(), await active()], [2, 1, 0])
  assert.deepEqual(
    logged().filter((line) => /itself/.test(line)),
    [
      'info the server does this itself; only reporting findings',
      'info the server has not done this itself for a minute; doing it here',
      'info the server does this itself; only reporting findings',
    ],
  )
})

test('a duty selected by name runs beside a server that performs it, with a warning', async (t) => {
  for (const [name, hook, reports] of [
    ['system-namespaces', NAMESPACES, undefined],
    ['cluster-ip-repair', REPAIRS, true],
  ] as const) {
    const { terms, answer, answerForAMinute, active, logged, settled, running } = setUp(t, {
      controllers: name,
      name,
      reports,
    })
    await answer(hook)
    assert.deepEqual([terms.length, await active(), await settled()], [1, 1, false])
    const risk =
      ': a starting API server may exit if this program creates an allocation that the server has just found missing'
    assert.deepEqual(logged(), [
      `warn the server does this itself; also doing it here, as configured${reports === true ? risk : ''}`,
    ])
    await answerForAMinute()
    await answer(hook)
    assert.deepEqual([terms.length, running(), await active()], [1, 1, 1], 'without a break')
  }
})

test('a term that fails is restarted with the current decision', async (t) => {
  const { time, terms, answer, active } = setUp(t)
  await answer(NAMESPACES)
  terms[0]?.crash(new Error('a mistake'))
  await time.advance(2_000)
  assert.deepEqual(
    terms.map(({ only }) => only),
    [['kube-node-lease'], ['kube-node-lease']],
  )
  await time.advance(60_000)
  assert.equal(terms.length, 2)
  assert.equal(await active(), 0)
})

test('the switch ends with its signal, in every state, and decides nothing afterwards', async (t) => {
  const afterAnswers: readonly (readonly string[] | undefined)[] = [undefined, [], [NAMESPACES, BOOTSTRAP]]
  for (const hooks of afterAnswers) {
    const { time, clock, terms, answer, end, running, logged } = setUp(t)
    if (hooks !== undefined) await answer(...hooks)
    await end()
    const before = [terms.length, logged().length]
    await answer()
    await answer(NAMESPACES)
    await time.advance(300_000)
    assert.deepEqual([terms.length, logged().length], before)
    assert.deepEqual([running(), clock.timers], [0, 0])
  }
})
