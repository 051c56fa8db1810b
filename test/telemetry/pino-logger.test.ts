import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { createPinoLogger, MAX_WAITING_BYTES, type PinoLoggerOptions } from '../../src/telemetry/pino-logger.ts'
import { addSecret } from '../../src/telemetry/secrets.ts'
import { freePort } from '../peers/ports.ts'

async function setUp(options: PinoLoggerOptions = {}) {
  const written: string[] = []
  const destination = { write: (line: string): void => void written.push(line) }
  const logger = await createPinoLogger({ destination, ...options })
  return { logger, written, lines: () => written.map((line) => JSON.parse(line)) }
}

test('a log line is one JSON object with level, time, fields and message', async () => {
  const { logger, written, lines } = await setUp()
  logger.child({ controller: 'endpoints' }).info({ key: 'default/a' }, 'synced')
  const [{ time, ...rest }] = lines()
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, { level: 'info', controller: 'endpoints', key: 'default/a', message: 'synced' })
  assert.match(written[0] as string, /^[^\n]*\n$/)
})

test('a field name with a quotation mark does not break the line, and its secret value is not written', async () => {
  const { logger, written } = await setUp()
  addSecret('opaque-token')
  logger.info({ 'a"b': 'opaque-token' }, 'stated')
  assert.equal(written.length, 1)
  assert.doesNotMatch(written[0] ?? '', /opaque-token/)
})

test('a line is written before the call returns', async () => {
  const { logger, written } = await setUp()
  logger.error({}, 'now')
  assert.equal(written.length, 1)
})

test('levels below the configured one are silent; the default is info', async () => {
  const messages = async (options: PinoLoggerOptions): Promise<string[]> => {
    const { logger, lines } = await setUp(options)
    for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]({}, level)
    return lines().map(({ level, message }) => `${level}:${message}`)
  }
  assert.deepEqual(await messages({}), ['info:info', 'warn:warn', 'error:error'])
  assert.deepEqual(await messages({ level: 'error' }), ['error:error'])
  assert.equal((await messages({ level: 'debug' })).length, 4)
})

test('an unknown level is rejected with a one-line error that names it', async () => {
  for (const level of ['loud', 7, {}] as const) {
    const wrong = { level, destination: { write: () => {} } } as unknown as PinoLoggerOptions
    const message = `level must be one of debug, info, warn, error, not ${inspect(level)}`
    await assert.rejects(createPinoLogger(wrong), { name: 'TypeError', message })
  }
})

test('an error is logged with its message and code, and with its stack at debug only', async () => {
  const error = Object.assign(new Error('no answer'), { code: 'Timeout', secret: 'hidden' })
  const quiet = await setUp()
  quiet.logger.warn({ error }, 'failed')
  assert.deepEqual(quiet.lines()[0].error, { message: 'no answer', code: 'Timeout' })
  const verbose = await setUp({ level: 'debug' })
  verbose.logger.warn({ error: new Error('x') }, 'failed')
  assert.deepEqual(Object.keys(verbose.lines()[0].error), ['message', 'stack'])
})

test('a value under error that is not an Error is logged unchanged', async () => {
  const { logger, lines } = await setUp()
  logger.warn({ error: 'refused' }, 'failed')
  assert.equal(lines()[0].error, 'refused')
})

test('secrets are redacted by name and by value, at any depth, in both formats', async () => {
  addSecret('SECRET-that-was-loaded')
  for (const format of ['json', 'pretty'] as const) {
    const { logger, written } = await setUp({ format })
    logger.info({ token: 'SECRET', headers: { authorization: 'SECRET', Authorization: 'SECRET' } }, 'sent')
    logger.child({ password: 'SECRET' }).info({ user: { bearerToken: 'SECRET', accessToken: 'SECRET' } }, 'sent')
    logger.info({ a: { b: [{ c: { 'refresh-token': 'SECRET', client_key_data: ['SECRET'] } }] } }, 'sent')
    const quoted = 'the server says "who is SECRET-that-was-loaded?"'
    logger.child({ quoted }).warn({ error: new Error(quoted), deep: { list: [{ quoted }] } }, quoted)
    assert.doesNotMatch(written.join(''), /SECRET/)
    assert.match(written.join(''), /\[redacted\]/)
  }
})

test('the pretty format writes one human-readable line before the call returns', async () => {
  const { logger, written } = await setUp({ format: 'pretty' })
  logger.warn({ controller: 'endpoints' }, 'falling behind')
  assert.match(written.join(''), /^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: falling behind \{"controller":"endpoints"\}\n$/)
})

test('hostile text is logged as one line in both formats, without characters that control a terminal', async () => {
  const hostile = 'a\u001b[2J\nb\u009b31m\u202e\u007f'
  for (const format of ['json', 'pretty'] as const) {
    const { logger, written } = await setUp({ format })
    logger.warn({ host: hostile }, hostile)
    assert.match(written.join(''), /^.*a\\u001b\[2J.*\n$/)
    assert.doesNotMatch(written.join(''), /(?!\n)[\p{Cc}\p{Cf}]/u)
  }
  const { logger, lines } = await setUp()
  logger.warn({ host: hostile }, 'stated')
  assert.equal(lines()[0].host, hostile)
})

const src = resolve(import.meta.dirname, '..', '..', 'src')
/** More bytes than a pipe and the logger's queue hold together. */
const fill = `data:text/javascript,${encodeURIComponent(`process.stderr.write('x'.repeat(${2 * MAX_WAITING_BYTES}) + '\\n')`)}`

suite('a log that nobody reads', () => {
  test('does not stop serving, lease renewal and /livez, and the number of lost lines is logged afterwards', async (t) => {
    const port = await freePort()
    const child = start(t, ['--import', fill, join(src, 'cli.ts'), ...embeddedOn(port)], 'pipe')
    await answers(`http://127.0.0.1:${port}/readyz`)
    const before = await renewals(port)
    while ((await renewals(port)) < before + 2) await sleep(100)
    const live = await fetch(`http://127.0.0.1:${port}/livez?verbose`)
    assert.deepEqual([live.status, (await live.text()).includes('[+]log ok\n')], [200, true])
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    while (!stderr.includes('log lines were lost')) await once(child.stderr, 'data')
    assert.match(
      stderr,
      /"level":"warn".*"lines":[1-9]\d*,"message":"log lines were lost: standard error was not read in time"/,
    )
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'close'), [0, null])
    assert.match(stderr.split('\n').at(-2) ?? '', /"level":"info"/, 'the last line is written')
  })

  test('takes a bounded amount of memory', async (t) => {
    const script = `
      const { createPinoLogger } = await import(${JSON.stringify(join(src, 'telemetry', 'pino-logger.ts'))})
      const logger = await createPinoLogger()
      for (let line = 0; line < 50_000; line++) logger.warn({ line, text: 'x'.repeat(200) }, 'a line')
      process.stdout.write(String(process.stderr.writableLength))
      setInterval(() => {}, 1000)`
    const child = start(t, ['--input-type=module', '-e', script], 'pipe')
    const [waiting] = await once(child.stdout, 'data')
    assert.ok(Number(waiting) > MAX_WAITING_BYTES / 2 && Number(waiting) < MAX_WAITING_BYTES + 1000, String(waiting))
  })

  for (const what of ['whose reader has gone', 'on a disk that is full'] as const) {
    test(`${what} does not stop serving`, async (t) => {
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
