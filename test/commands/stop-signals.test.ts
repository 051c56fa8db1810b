import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'

/** A process that gets two signals, so many milliseconds apart, while it takes half a second to stop. */
function stopped(first: string, second: string, apartMs: number): Promise<number> {
  const script = `
    import { stopSignals } from ${JSON.stringify(new URL('../../src/commands/stop-signals.ts', import.meta.url).href)}
    const { signal } = stopSignals()
    signal.addEventListener('abort', () => setTimeout(() => process.exit(7), 1500))
    process.kill(process.pid, '${first}')
    setTimeout(() => process.kill(process.pid, '${second}'), ${apartMs})
    setTimeout(() => process.exit(8), 20_000)
  `
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['--input-type=module', '-e', script])
    child.once('exit', (code) => resolve(code ?? -1))
  })
}

test('two SIGINTs of one Ctrl-C are one; a later one, or another signal, ends the process at once', async () => {
  assert.deepEqual(
    await Promise.all([
      stopped('SIGINT', 'SIGINT', 20),
      stopped('SIGINT', 'SIGINT', 800),
      stopped('SIGINT', 'SIGTERM', 20),
    ]),
    [7, 1, 1],
  )
})
