import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { KubernetesServiceDuty } from '../../src/kubernetes-service/duty.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import type { EndpointReconciler } from '../../src/kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { parseAddress } from '../../src/net/address.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { controllerWorld } from './controller-world.ts'

const answers = {
  ready: { answered: true, ready: true, checks: [] },
  failing: { answered: true, ready: false, checks: [] },
  silent: { answered: false, reason: 'no answer' },
  refused: { answered: true, ready: false, checks: [], refused: '/readyz cannot be read: HTTP status 403' },
} as const satisfies Record<string, ReadinessAnswer>
const away = new KubeError('Unreachable', 'connection refused')
const conflict = new KubeError('Conflict', 'conflict')
const forbidden = new KubeError('Forbidden', 'forbidden')

/** A reconciler without leases. The test decides what each step does. Records its calls. */
class Steps implements EndpointReconciler {
  readonly calls: string[] = []
  write: (signal: AbortSignal) => Promise<void> = async () => {}
  remove: (signal: AbortSignal) => Promise<void> = async () => {}
  departure: (signal: AbortSignal) => Promise<'left' | 'last-one'> = async () => 'left'
  clear: (signal: AbortSignal) => Promise<boolean> = async () => false

  async reconcileEndpoints(_ip: unknown, _ports: unknown, _reconcilePorts: unknown, signal: AbortSignal) {
    this.calls.push('reconcile')
    await this.write(signal)
  }
  async removeEndpoints(
    { text }: { readonly text: string },
    [port]: readonly { readonly port?: number }[],
    signal: AbortSignal,
  ) {
    this.calls.push(`remove ${text}:${port?.port}`)
    await this.remove(signal)
  }
  async leave({ text }: { readonly text: string }, [port]: readonly { readonly port?: number }[], signal: AbortSignal) {
    this.calls.push(`leave ${text}:${port?.port}`)
    return this.departure(signal)
  }
  async clearAway(
    ip: { readonly text: string } | undefined,
    [port]: readonly { readonly port?: number }[],
    signal: AbortSignal,
  ) {
    this.calls.push(`clear ${ip?.text}:${port?.port}`)
    return this.clear(signal)
  }
  stopReconciling(): void {
    this.calls.push('stop')
  }
  async destroy(): Promise<void> {
    this.calls.push('destroy')
  }
}

interface Options {
  readonly server?: keyof typeof answers
  readonly steps?: Steps
  readonly address?: string
  /** The methods that the reconciler lacks. */
  readonly lacks?: readonly ('leave' | 'clearAway')[]
  readonly before?: (call: string) => void
  readonly late?: { readonly plural: string; readonly until: Promise<void> }
}

async function open(t: Parameters<typeof controllerWorld>[0], options: Options = {}) {
  const { steps = new Steps(), address = '192.0.2.1', lacks = [], before, late } = options
  const reconciler: EndpointReconciler = steps
  for (const name of lacks) Object.assign(steps, { [name]: undefined })
  const world = await controllerWorld(t, {
    reconciler,
    address,
    runs: false,
    ...(before && { before }),
    ...(late && { late }),
  })
  const { time, clock, logger, controller } = world
  const server = { answer: options.server ?? ('ready' as keyof typeof answers), probes: 0 }
  const monitor = new ReadinessMonitor({
    ...{ clock, logger, metrics: prometheusMetrics(), gate: 'continuous', periodMs: 1_000 },
    readiness: {
      async probe() {
        server.probes++
        return answers[server.answer]
      },
    },
  })
  const duty = new KubernetesServiceDuty({
    ...{ clock, logger, monitor, controller, reconciler, securePort: 6443 },
    address: address === 'none' ? undefined : parseAddress(address),
  })
  const stop = new AbortController()
  const probing = monitor.run(stop.signal).catch(() => {})
  const running = duty.run(stop.signal)
  const ended: { how?: string } = {}
  void running.then(
    () => (ended.how = 'resolved'),
    (error: unknown) => (ended.how = `rejected: ${error}`),
  )
  t.after(async () => {
    stop.abort(new Error('the end'))
    await time.advance(1)
    await Promise.all([probing, running.catch(() => {})])
  })
  await time.advance(1)
  const logged = (level: string) =>
    logger.lines
      .filter((line) => line.level === level && /address|withdraw/.test(line.message))
      .map(({ message }) => message)
  const calls = () => steps.calls.splice(0)
  /** Leaves, and returns how that ended. */
  const leave = (mode: Parameters<typeof duty.stop>[0], signal = new AbortController().signal) => {
    const left: { how?: unknown } = {}
    void duty.stop(mode, signal).then(
      () => (left.how = 'resolved'),
      (error: unknown) => (left.how = error),
    )
    return left
  }
  return { ...world, steps, server, duty, stop, ended, logged, calls, leave, time, clock, logger }
}

const own = '192.0.2.1:6443'

test('the duty writes nothing before its server has been ready once, and reconciles soon after', async (t) => {
  const { time, server, asked, calls, logged } = await open(t, { server: 'failing' })
  await time.advance(30_000)
  assert.deepEqual(logged('info'), [], 'a removal of a missing entry is not logged')
  assert.deepEqual([asked(), calls()], [[], [`clear ${own}`]])
  server.answer = 'ready'
  await time.advance(1_000)
  assert.ok(asked().includes('create services'))
  assert.deepEqual(calls()[0], 'reconcile')
})

test('the entry of an earlier life is removed once, after the first answer, if the server is not ready', async (t) => {
  const steps = new Steps()
  const { time, server, calls, logged } = await open(t, { server: 'silent', steps })
  await time.advance(5_000)
  assert.deepEqual(calls(), [], 'nothing is written before the first answer')
  steps.clear = async () => true
  server.answer = 'failing'
  await time.advance(1_000)
  assert.deepEqual(calls(), [`clear ${own}`])
  assert.deepEqual(logged('info'), ['removed the address of a previous run: the API server is not ready'])
  await time.advance(10_000)
  assert.deepEqual(calls(), [], 'once')
})

test('while the server refuses to report its readiness, the entry of an earlier life stays', async (t) => {
  const { time, server, calls } = await open(t, { server: 'refused' })
  await time.advance(5_000)
  assert.deepEqual(calls(), [])
  server.answer = 'ready'
  await time.advance(1_000)
  assert.deepEqual(calls(), ['reconcile'])
})

test('if the server is ready at its first answer, the entry of an earlier life is not cleared', async (t) => {
  const { calls } = await open(t)
  assert.deepEqual(calls(), ['reconcile'])
})

test('while the entry of an earlier life cannot be cleared, the duty retries every half second until the server is ready', async (t) => {
  const steps = new Steps()
  steps.clear = () => Promise.reject(away)
  const { time, server, calls, logged } = await open(t, { server: 'failing', steps })
  await time.advance(1_998)
  assert.deepEqual(calls(), Array(4).fill(`clear ${own}`))
  server.answer = 'ready'
  await time.advance(1_000)
  assert.deepEqual(calls().at(-1), 'reconcile')
  assert.deepEqual(logged('info'), [])
  await time.advance(1_000)
  assert.deepEqual(calls(), [])
})

test('once the server has been ready, the duty no longer clears the entry of an earlier life', async (t) => {
  const steps = new Steps()
  const cleared = Promise.withResolvers<boolean>()
  steps.clear = () => cleared.promise
  const { time, server, calls } = await open(t, { server: 'failing', steps })
  server.answer = 'ready'
  await time.advance(1_000)
  server.answer = 'failing'
  await time.advance(10_000)
  cleared.reject(away)
  await time.advance(2_000)
  assert.deepEqual(calls(), [`clear ${own}`, 'reconcile'])
})

test('without an address, or if the reconciler has no clearAway, the duty clears nothing', async (t) => {
  for (const options of [{ address: 'none' }, { lacks: ['clearAway'] }] as const) {
    const { time, calls, server, asked } = await open(t, { server: 'failing', ...options })
    await time.advance(2_000)
    assert.deepEqual(calls(), [])
    server.answer = 'ready'
    await time.advance(1_000)
    assert.ok(asked().includes('create services'))
  }
})

test('the duty ends when its signal aborts, whatever it waits for', async (t) => {
  const steps = new Steps()
  steps.clear = () => Promise.reject(away)
  for (const [server, more] of [
    ['ready', {}],
    ['failing', {}],
    ['silent', {}],
    ['failing', { steps }],
  ] as const) {
    const { time, stop, ended, clock } = await open(t, { server, ...more })
    await time.advance(5_100)
    assert.equal(ended.how, undefined)
    stop.abort(new Error('the end'))
    await time.advance(0)
    assert.equal(ended.how, 'resolved', server)
    assert.equal(clock.timers, 0)
  }
})

test('a programming error in a watch ends the duty with that error, one in a live read does not', async (t) => {
  const mistake = new TypeError('a mistake')
  const watch = Promise.withResolvers<void>()
  const watching = await open(t, { late: { plural: 'services', until: watch.promise } })
  watch.reject(mistake)
  await watching.time.advance(1_000)
  assert.equal(watching.ended.how, 'rejected: TypeError: a mistake')
  const reading = await open(t, {
    before(call) {
      if (call === 'get kubernetes of endpoints') throw mistake
    },
  })
  await reading.time.advance(60_000)
  assert.equal(reading.ended.how, undefined)
})

test('the duty ends only after its watches have ended', async (t) => {
  const begun = Promise.withResolvers<void>()
  const { time, stop, ended } = await open(t, { late: { plural: 'services', until: begun.promise } })
  stop.abort(new Error('the end'))
  await time.advance(1_000)
  assert.equal(ended.how, undefined)
  begun.resolve()
  await time.advance(1_000)
  assert.equal(ended.how, 'resolved')
})

test('a stopped duty withdraws its address and reconciles no more, while its watches run until the signal aborts', async (t) => {
  const { time, calls, setPort, service, leave, ended, stop, controller, asked } = await open(t)
  await time.advance(1_000)
  calls()
  asked()
  const left = leave('always')
  await time.advance(0)
  assert.equal(left.how, 'resolved')
  assert.deepEqual(calls(), ['stop', `remove ${own}`, 'destroy'])
  await setPort(8443)
  controller.request()
  await time.advance(20_000)
  assert.deepEqual([asked(), calls()], [[], []])
  assert.equal((await service())?.spec?.ports?.[0]?.port, 8443)
  assert.equal(ended.how, undefined)
  assert.equal(getEventListeners(stop.signal, 'abort').length > 0, true)
  stop.abort(new Error('the end'))
  await time.advance(0)
  assert.equal(ended.how, 'resolved')
})

test('a stopped duty withdraws its address only after the running reconciliation has ended', async (t) => {
  const steps = new Steps()
  const written = Promise.withResolvers<void>()
  steps.write = () => written.promise
  const { time, calls, leave } = await open(t, { steps })
  calls()
  leave('always')
  await time.advance(5_000)
  assert.deepEqual(calls(), [])
  written.resolve()
  await time.advance(0)
  assert.deepEqual(calls(), ['stop', `remove ${own}`, 'destroy'])
})

test('a stopped duty withdraws its address even if its reconciliations have failed', async (t) => {
  const { time, calls, leave } = await open(t, {
    before(call) {
      if (call === 'get kubernetes of endpoints') throw new TypeError('a mistake')
    },
  })
  await time.advance(10_000)
  calls()
  const left = leave('always')
  await time.advance(0)
  assert.deepEqual([left.how, calls()], ['resolved', ['stop', `remove ${own}`, 'destroy']])
})

test('how a duty leaves depends on the mode, on its server, and on the reconciler', async (t) => {
  const leaving = async (
    mode: Parameters<KubernetesServiceDuty['stop']>[0],
    options: Options = {},
    server: keyof typeof answers = 'ready',
  ) => {
    const world = await open(t, options)
    await world.time.advance(900)
    world.calls()
    world.server.answer = server
    const left = world.leave(mode)
    await world.time.advance(0)
    assert.equal(left.how, 'resolved')
    return [world.calls().slice(1, -1), world.logged('info')]
  }
  const withdrew = ['withdrew the address, if it was listed']
  assert.deepEqual(await leaving('keep'), [[], ['leaving the address on the list']])
  assert.deepEqual(await leaving('withdraw'), [[`leave ${own}`], withdrew])
  assert.deepEqual(await leaving('withdraw', {}, 'failing'), [[`leave ${own}`], withdrew])
  assert.deepEqual(await leaving('withdraw', {}, 'silent'), [[`leave ${own}`], withdrew])
  assert.deepEqual(await leaving('withdraw', { lacks: ['leave'] }), [[`remove ${own}`], withdrew])
  assert.deepEqual(await leaving('always'), [[`remove ${own}`], withdrew])
  assert.deepEqual(await leaving('always', { address: 'none' }), [[], []])
  const steps = new Steps()
  steps.departure = async () => 'last-one'
  const stays = ['leaving the address on the list: no other address is listed']
  assert.deepEqual(await leaving('withdraw', { steps }), [[`leave ${own}`], stays])
})

test('a withdrawal is retried at once after a conflict, else five times a second; each reason is logged once', async (t) => {
  const failures: Error[] = [conflict, conflict, forbidden, forbidden, away]
  const steps = new Steps()
  steps.remove = async () => {
    const failure = failures.shift()
    if (failure !== undefined) throw failure
  }
  const { time, calls, leave, logged, logger } = await open(t, { steps })
  calls()
  const left = leave('always')
  await time.advance(199)
  assert.equal(calls().length, 4, 'stop, two conflicts, a refusal')
  await time.advance(1)
  assert.deepEqual(calls(), [`remove ${own}`])
  await time.advance(399)
  assert.equal(left.how, undefined)
  await time.advance(1)
  assert.equal(left.how, 'resolved')
  assert.deepEqual(logged('warn'), Array(2).fill('could not withdraw the address'))
  const reasons = logger.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields)
  assert.deepEqual(
    reasons,
    [forbidden, away].map(({ message: reason }) => ({ reason, tryingAgain: true })),
  )
})

test('a withdrawal is not retried more than 20 times a second while every write meets a conflict', async (t) => {
  const steps = new Steps()
  steps.remove = () => Promise.reject(conflict)
  const { time, calls, leave } = await open(t, { steps })
  calls()
  const left = leave('always')
  await time.advance(1_000)
  assert.equal(calls().length, 1 + 4 + 20, 'stop, four at once, and one each 50 ms')
  steps.remove = async () => {}
  await time.advance(50)
  assert.equal(left.how, 'resolved')
})

test('the withdrawal gives up when the server does not answer, logs that, and destroys the reconciler', async (t) => {
  const steps = new Steps()
  steps.remove = () => Promise.reject(away)
  const { time, calls, leave, logger, server } = await open(t, { steps })
  const left = leave('always')
  await time.advance(100)
  server.answer = 'silent'
  await time.advance(100)
  assert.equal(left.how, 'resolved')
  assert.equal(calls().at(-1), 'destroy')
  const lines = logger.lines.filter(({ message }) => message === 'could not withdraw the address')
  assert.deepEqual(
    lines.map(({ fields }) => fields.tryingAgain),
    [true, false],
    'the reason is the same',
  )
})

test('an aborted signal or a programming error ends the withdrawal and destroys the reconciler', async (t) => {
  const mistake = new TypeError('a mistake')
  for (const failure of [away, mistake]) {
    const steps = new Steps()
    steps.remove = () => Promise.reject(failure)
    const { time, calls, leave, server } = await open(t, { steps })
    const giveUp = new AbortController()
    const left = leave('always', giveUp.signal)
    await time.advance(100)
    const { probes } = server
    const enough = new Error('enough')
    giveUp.abort(enough)
    await time.advance(0)
    assert.equal(left.how, failure === mistake ? mistake : enough)
    assert.equal(calls().at(-1), 'destroy')
    await time.advance(300)
    assert.equal(server.probes, probes, 'nothing is asked after that')
  }
})

test('after its signal has aborted, a failed withdrawal is not retried and the server is not probed', async (t) => {
  const steps = new Steps()
  const giveUp = new AbortController()
  steps.remove = async () => {
    giveUp.abort(new Error('enough'))
    throw conflict
  }
  const { time, calls, leave, server } = await open(t, { steps })
  calls()
  const { probes } = server
  const left = leave('always', giveUp.signal)
  await time.advance(0)
  assert.equal(left.how, conflict)
  assert.deepEqual([calls(), server.probes], [['stop', `remove ${own}`, 'destroy'], probes])
})
