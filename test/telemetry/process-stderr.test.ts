import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_WAITING_BYTES } from '../../src/telemetry/process-stderr.ts'
import { freePort } from '../support/free-port.ts'

const src = resolve(import.meta.dirname, '..', '..', 'src')
/** More than a pipe and what may wait for it hold. */
const fill = `data:text/javascript,${encodeURIComponent(`process.stderr.write('x'.repeat(${2 * MAX_WAITING_BYTES}) + '\\n')`)}`

suite('a log that nobody takes', () => {
  test('keeps nobody from serving and renewing, and says afterwards how much was lost', async (t) => {
    const port = await freePort()
    const child = start(t, ['--import', fill, join(src, 'cli.ts'), ...embeddedOn(port)], 'pipe')
    await answers(`http://127.0.0.1:${port}/readyz`)
    const before = await renewals(port)
    while ((await renewals(port)) < before + 2) await sleep(100)
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    while (!said.includes('log lines were lost')) await once(child.stderr, 'data')
    assert.match(said, /"level":"warn".*"lines":[1-9]\d*,"message":"log lines were lost: nobody took them in time"/)
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'close'), [0, null])
    assert.match(said.split('\n').at(-2) ?? '', /"level":"info"/, 'the last line comes out')
  })

  test('takes no more than so much memory', async (t) => {
    const script = `
      const { createPinoLogger } = await import(${JSON.stringify(join(src, 'telemetry', 'pino-logger.ts'))})
      const logger = await createPinoLogger()
      for (let line = 0; line < 50_000; line++) logger.warn({ line, text: 'x'.repeat(200) }, 'said')
      process.stdout.write(String(process.stderr.writableLength))
      setInterval(() => {}, 1000)`
    const child = start(t, ['--input-type=module', '-e', script], 'pipe')
    const [waiting] = await once(child.stdout, 'data')
    assert.ok(Number(waiting) > MAX_WAITING_BYTES / 2 && Number(waiting) < MAX_WAITING_BYTES + 1000, String(waiting))
  })

  for (const what of ['whose reader has gone', 'on a disk that is full'] as const) {
    test(`${what} keeps nobody from serving`, async (t) => {
      const port = await freePort()
      const full = what === 'on a disk that is full' ? openSync('/dev/full', 'w') : 'pipe'
      const child = start(t, [join(src, 'cli.ts'), ...embeddedOn(port), '--log-level=debug'], full)
      if (full === 'pipe') child.stderr.destroy()
      else closeSync(full)
      await answers(`http://127.0.0.1:${port}/readyz`)
      const before = await renewals(port)
      while ((await renewals(port)) < before + 2) await sleep(100)
      child.kill('SIGTERM')
      assert.deepEqual(await once(child, 'close'), [0, null])
    })
  }
})

type Started = ChildProcessByStdio<null, Readable, Readable>

function start(t: TestContext, args: readonly string[], stderr: 'pipe' | number): Started {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', stderr] }) as Started
  child.stdout.resume()
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    child.stderr?.resume()
    await closed
  })
  return child
}

function embeddedOn(port: number): readonly string[] {
  const times = ['--lease-ttl=2s', '--reconcile-interval=1s']
  return ['run', '--embedded', `--health-bind-address=127.0.0.1:${port}`, ...times]
}

async function answers(url: string): Promise<void> {
  while ((await fetch(url).catch(() => undefined))?.status !== 200) await sleep(50)
}

async function renewals(port: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(/^apiserver_bootstrap_lease_renewals_total\{result="success"\} (\d+)/m.exec(metrics)?.[1] ?? 0)
}
