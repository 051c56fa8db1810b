import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lifecycle, LifecycleError, type LifecycleOptions, type Part } from '../../src/lifecycle/lifecycle.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import type { HealthEndpoint } from '../../src/telemetry/health.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

/** A life on virtual time. `log` is what the test's hooks and parts wrote, with the time of each line. */
function setUp(options: Omit<LifecycleOptions, 'clock' | 'logger'> = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const lifecycle = new Lifecycle({ clock, logger, ...options })
  const stop = new AbortController()
  const log: string[] = []
  const write = (line: string): void => void log.push(`${time.nowMs} ${line}`)
  /** Runs until it is stopped, then takes `drainMs` to end. */
  const part =
    (name: string, drainMs = 0): Part =>
    async (signal) => {
      write(`${name} runs`)
      await aborted(signal)
      if (drainMs > 0) await sleep(clock, drainMs)
      write(`${name} ended`)
    }
  const failing = async (endpoint: HealthEndpoint): Promise<string[]> => {
    const faults = await Promise.all(
      lifecycle.checks(endpoint).map(async ({ name, fault }) => ({ name, fault: await fault() })),
    )
    return faults.filter(({ fault }) => fault !== undefined).map(({ name, fault }) => `${name}: ${fault}`)
  }
  const logged = (): string[] => logger.lines.map(({ level, message }) => `${level} ${message}`)
  return { time, clock, lifecycle, stop, log, write, part, failing, logged }
}

test('parts, hooks, shutdown delay and drain happen in order', async () => {
  const { time, clock, lifecycle, stop, log, write, part, failing } = setUp({ shutdownDelayMs: 30 })
  lifecycle.part('recorder', part('recorder', 5))
  lifecycle.part('controller', part('controller', 5))
  lifecycle.postStartHook('fast', async () => write('fast hook'))
  lifecycle.postStartHook('slow', async () => {
    await sleep(clock, 10)
    write('slow hook')
  })
  lifecycle.preShutdownHook('withdraw', async () => {
    write(`withdraw begins, failing: ${await failing('readyz')}`)
    await sleep(clock, 20)
    write('withdraw ended')
  })
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  await time.advance(100)
  stop.abort()
  await time.advance(100)
  await running
  assert.deepEqual(log, [
    '0 recorder runs',
    '0 controller runs',
    '0 fast hook',
    '10 slow hook',
    '100 withdraw begins, failing: shutdown: process is shutting down',
    '120 withdraw ended',
    '155 controller ended',
    '160 recorder ended',
    '160 over',
  ])
})

test('readyz and healthz fail until a post-start hook has finished, while livez succeeds', async () => {
  const { time, clock, lifecycle, stop, failing } = setUp()
  lifecycle.postStartHook('bootstrap-controller', () => sleep(clock, 50))
  const red = ['poststarthook/bootstrap-controller: not finished']
  assert.deepEqual(await failing('readyz'), red)
  const running = lifecycle.run(stop.signal)
  await time.advance(49)
  for (const endpoint of ['readyz', 'healthz'] as const) assert.deepEqual(await failing(endpoint), red)
  assert.deepEqual(await failing('livez'), [])
  await time.advance(1)
  assert.deepEqual(await failing('readyz'), [])
  stop.abort()
  await time.advance(1)
  await running
})

test('a failing post-start hook shuts down in the usual order, and run() rejects with its error', async () => {
  const { time, lifecycle, stop, log, part, write, logged } = setUp()
  lifecycle.part('controller', part('controller'))
  lifecycle.postStartHook('repair', async () => {
    throw new Error('unable to check')
  })
  lifecycle.preShutdownHook('withdraw', async (_signal, failure) => write(`withdraw, because ${failure?.message}`))
  const running = assert.rejects(lifecycle.run(stop.signal), (error: Error) => {
    assert.ok(error instanceof LifecycleError)
    assert.equal(error.message, 'PostStartHook "repair" failed: unable to check')
    assert.equal((error.cause as Error).message, 'unable to check')
    return true
  })
  await time.advance(1)
  await running
  assert.deepEqual(log, [
    '0 controller runs',
    '0 withdraw, because PostStartHook "repair" failed: unable to check',
    '0 controller ended',
  ])
  assert.deepEqual(logged(), [
    'error PostStartHook "repair" failed: unable to check',
    'info shutting down',
    'info shut down',
  ])
})

test('a failing part ends the process', async () => {
  const { time, clock, lifecycle, stop } = setUp()
  lifecycle.part('controller', async () => {
    await sleep(clock, 10)
    throw new Error('broken')
  })
  const running = assert.rejects(lifecycle.run(stop.signal), /^LifecycleError: part "controller" failed: broken$/)
  await time.advance(20)
  await running
})

test('a part that ends by itself has failed', async () => {
  const { time, lifecycle, stop } = setUp()
  lifecycle.part('controller', async () => {})
  const running = assert.rejects(lifecycle.run(stop.signal), /part "controller" failed: it ended by itself/)
  await time.advance(1)
  await running
})

test('if a part throws synchronously, the others have started and are shut down', async () => {
  const { time, lifecycle, stop, log, part, write } = setUp()
  lifecycle.preShutdownHook('withdraw', async () => write('withdraw'))
  lifecycle.part('broken', () => {
    throw new Error('broken')
  })
  lifecycle.part('controller', part('controller'))
  const running = assert.rejects(lifecycle.run(stop.signal), /part "broken" failed: broken/)
  await time.advance(1)
  await running
  assert.deepEqual(log, ['0 controller runs', '0 withdraw', '0 controller ended'])
})

test('errors of parts and post-start hooks after the shutdown signal are no failures', async () => {
  const { time, lifecycle, stop } = setUp()
  const throwing = async (signal: AbortSignal): Promise<void> => {
    await aborted(signal)
    throw signal.reason
  }
  lifecycle.part('controller', throwing)
  lifecycle.postStartHook('hook', throwing)
  const running = lifecycle.run(stop.signal)
  await time.advance(1)
  stop.abort()
  await time.advance(1)
  await running
})

test('run() rejects with the first failure', async () => {
  const { time, clock, lifecycle, stop } = setUp()
  lifecycle.part('controller', async () => {
    throw new Error('first')
  })
  lifecycle.preShutdownHook('withdraw', async () => {
    await sleep(clock, 1)
    throw new Error('second')
  })
  const running = assert.rejects(lifecycle.run(stop.signal), /first/)
  await time.advance(10)
  await running
})

test('a failing pre-shutdown hook does not stop the shutdown, and run() rejects afterwards', async () => {
  const { time, lifecycle, stop, log, part, write } = setUp()
  lifecycle.part('controller', part('controller'))
  lifecycle.preShutdownHook('broken', () => {
    throw new Error('no answer')
  })
  lifecycle.preShutdownHook('withdraw', async (_signal, failure) => write(`withdraw, because ${failure}`))
  const running = assert.rejects(lifecycle.run(stop.signal), /PreShutdownHook "broken" failed: no answer/)
  stop.abort()
  await time.advance(1)
  await running
  assert.equal(log.at(-1), '0 controller ended')
})

test('pre-shutdown hooks run concurrently, and the shutdown delay begins when the last of them has ended', async () => {
  const { time, clock, lifecycle, stop, write, log } = setUp({ shutdownDelayMs: 25 })
  for (const ms of [20, 10]) {
    lifecycle.preShutdownHook(`${ms}`, async () => {
      await sleep(clock, ms)
      write(`hook of ${ms} ms`)
    })
  }
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  await time.advance(5)
  stop.abort()
  await time.advance(100)
  await running
  assert.deepEqual(log, ['15 hook of 10 ms', '25 hook of 20 ms', '50 over'])
})

test('a pre-shutdown hook that does not end is aborted and abandoned, and its late error is ignored', async () => {
  const { time, lifecycle, stop, write, log, logged, part } = setUp({ preShutdownTimeoutMs: 40 })
  lifecycle.part('controller', part('controller'))
  lifecycle.preShutdownHook('stuck', async (signal) => {
    await aborted(signal)
    write('stuck was aborted')
    throw signal.reason
  })
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  await time.advance(1)
  stop.abort()
  await time.advance(100)
  await running
  assert.deepEqual(log, ['0 controller runs', '41 stuck was aborted', '41 controller ended', '41 over'])
  assert.deepEqual(logged(), [
    'info shutting down',
    'error a pre-shutdown hook did not end in time and is abandoned',
    'info shut down',
  ])
})

test('a part that does not end is abandoned, and parts registered before it are still shut down', async () => {
  const { time, lifecycle, stop, write, log, logged, part } = setUp()
  lifecycle.part('first', part('first'))
  lifecycle.part('stuck', () => new Promise(() => {}))
  lifecycle.part('last', part('last', 10))
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  await time.advance(1)
  stop.abort()
  await time.advance(6_000)
  await running
  assert.deepEqual(log, ['0 first runs', '0 last runs', '11 last ended', '5001 first ended', '5001 over'])
  assert.equal(logged().filter((line) => line === 'error a part did not end in time and is abandoned').length, 1)
})

test('a post-start hook that ignores its signal delays the end by at most five seconds', async () => {
  const { time, lifecycle, stop, write, log } = setUp()
  lifecycle.postStartHook('stuck', () => new Promise(() => {}))
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  stop.abort()
  await time.advance(6_000)
  await running
  assert.deepEqual(log, ['5000 over'])
})

test('a running post-start hook is aborted when the shutdown begins, before the parts are shut down', async () => {
  const { time, lifecycle, stop, write, log } = setUp({ shutdownDelayMs: 50 })
  lifecycle.postStartHook('waiting', async (signal) => {
    await aborted(signal)
    write('aborted')
  })
  const running = lifecycle.run(stop.signal).then(() => write('over'))
  await time.advance(1)
  stop.abort()
  await time.advance(100)
  await running
  assert.deepEqual(log, ['1 aborted', '51 over'])
})

test('every call of shutdown() returns the same promise, also from inside a hook', async () => {
  const { time, lifecycle, stop, log, write, part } = setUp()
  lifecycle.part('controller', part('controller'))
  lifecycle.postStartHook('listens', async (signal) => {
    signal.addEventListener('abort', () => void lifecycle.shutdown())
  })
  lifecycle.preShutdownHook('withdraw', async () => {
    write('withdraw')
    void lifecycle.shutdown()
  })
  const running = lifecycle.run(stop.signal)
  await time.advance(1)
  const first = lifecycle.shutdown()
  assert.equal(lifecycle.shutdown(), first)
  stop.abort()
  await time.advance(1)
  await Promise.all([first, running])
  assert.equal(lifecycle.shutdown(), first)
  assert.deepEqual(log, ['0 controller runs', '1 withdraw', '1 controller ended'])
})

test('if the signal is already aborted, nothing starts and no pre-shutdown hook runs', async () => {
  const { lifecycle, failing } = setUp()
  const never = () => assert.fail('must not run')
  lifecycle.part('controller', never)
  lifecycle.postStartHook('hook', never)
  lifecycle.preShutdownHook('withdraw', never)
  await lifecycle.run(AbortSignal.abort())
  assert.ok((await failing('readyz')).includes('shutdown: process is shutting down'))
})

test('if shutdown() was called before run(), nothing starts, and run() resolves', async () => {
  const { lifecycle, stop } = setUp()
  const never = () => assert.fail('must not run')
  lifecycle.part('controller', never)
  lifecycle.postStartHook('hook', never)
  lifecycle.preShutdownHook('withdraw', never)
  await lifecycle.shutdown()
  await lifecycle.run(stop.signal)
  await assert.rejects(lifecycle.run(stop.signal), /runs once/)
})

test('run() may be called only once', async () => {
  const { lifecycle } = setUp()
  await lifecycle.run(AbortSignal.abort())
  await assert.rejects(lifecycle.run(new AbortController().signal), /runs once/)
})

test('names must be unique and not empty, and registered before the start', async () => {
  const { time, lifecycle, stop, part } = setUp()
  const hook = async (): Promise<void> => {}
  const register: Record<string, (name: string) => void> = {
    part: (name) => lifecycle.part(name, part(name)),
    PostStartHook: (name) => lifecycle.postStartHook(name, hook),
    PreShutdownHook: (name) => lifecycle.preShutdownHook(name, hook),
    'health check': (name) => lifecycle.healthCheck(name, () => undefined),
  }
  for (const [kind, add] of Object.entries(register)) {
    add('x')
    assert.throws(() => add('x'), new Error(`${kind} "x" is already registered`))
    assert.throws(() => add(''), new Error(`a ${kind} needs a name`))
  }
  for (const name of ['ping', 'log', 'shutdown', 'poststarthook/x']) {
    assert.throws(() => register['health check']?.(name), new Error(`health check "${name}" is already registered`))
  }
  const running = lifecycle.run(stop.signal)
  for (const [kind, add] of Object.entries(register)) {
    assert.throws(() => add('late'), new Error(`${kind} "late" cannot be registered after the start`))
  }
  stop.abort()
  await time.advance(1)
  await running
})

test('checks are listed in order of registration, on their endpoints', () => {
  const { lifecycle } = setUp()
  lifecycle.healthCheck('etcd', () => undefined)
  lifecycle.postStartHook('hook', async () => {})
  lifecycle.healthCheck('informer-sync', () => undefined, ['readyz'])
  const names = (endpoint: HealthEndpoint): string[] => lifecycle.checks(endpoint).map(({ name }) => name)
  assert.deepEqual(names('livez'), ['ping', 'log', 'etcd', 'poststarthook/hook'])
  assert.deepEqual(names('healthz'), ['ping', 'log', 'etcd', 'poststarthook/hook'])
  assert.deepEqual(names('readyz'), ['ping', 'log', 'etcd', 'poststarthook/hook', 'informer-sync', 'shutdown'])
})
