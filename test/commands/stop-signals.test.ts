import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'

const stopSignals = JSON.stringify(new URL('../../src/commands/stop-signals.ts', import.meta.url).href)

/** The exit code of a process that runs this script. */
function exitCodeOf(script: string): Promise<number> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['--input-type=module', '-e', script])
    child.once('exit', (code) => resolve(code ?? -1))
  })
}

/** The exit code of a process that receives two signals, `apartMs` milliseconds apart, and takes a while to stop. */
function stopped(first: string, second: string, apartMs: number, release = ''): Promise<number> {
  return exitCodeOf(`
    import { stopSignals } from ${stopSignals}
    const { signal, release } = stopSignals()
    signal.addEventListener('abort', () => {
      ${release}
      setTimeout(() => process.exit(7), 3000)
    })
    process.kill(process.pid, '${first}')
    setTimeout(() => process.kill(process.pid, '${second}'), ${apartMs})
    setTimeout(() => process.exit(8), 20_000)
  `)
}

test('two signals in quick succession count as one; a second signal later ends the process at once', async () => {
  assert.deepEqual(
    await Promise.all([
      stopped('SIGTERM', 'SIGTERM', 0),
      stopped('SIGINT', 'SIGINT', 20),
      stopped('SIGINT', 'SIGTERM', 20),
      stopped('SIGTERM', 'SIGINT', 300),
      stopped('SIGTERM', 'SIGTERM', 1500),
      stopped('SIGINT', 'SIGTERM', 1500),
    ]),
    [7, 7, 7, 7, 1, 1],
  )
})

test('a second signal does not end a process that has just released the handler', async () => {
  assert.equal(await stopped('SIGTERM', 'SIGTERM', 20, 'release()'), 7)
})

/** The exit code of a process that receives SIGTERM after `ranMs`, and again `apartMs` later, on its own clock. */
function stoppedAfter(ranMs: number, apartMs: number): Promise<number> {
  return exitCodeOf(`
    import { stopSignals } from ${stopSignals}
    let nowMs = ${ranMs}
    performance.now = () => nowMs
    stopSignals()
    let signals = 0
    // Called after the handler that is tested.
    process.on('SIGTERM', () => {
      if (++signals === 2) process.exit(7)
      nowMs += ${apartMs}
      process.kill(process.pid, 'SIGTERM')
    })
    process.kill(process.pid, 'SIGTERM')
    setTimeout(() => process.exit(8), 60_000)
  `)
}

test('the effect of a second signal depends on the time since the first, not on the uptime of the process', async () => {
  assert.deepEqual(
    await Promise.all([
      stoppedAfter(100, 999),
      stoppedAfter(100, 1_000),
      stoppedAfter(60_000, 999),
      stoppedAfter(60_000, 1_000),
    ]),
    [7, 1, 7, 1],
  )
})
