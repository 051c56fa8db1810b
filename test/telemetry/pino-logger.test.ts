import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPinoLogger, type PinoLoggerOptions } from '../../src/telemetry/pino-logger.ts'
import { keepSecret } from '../../src/telemetry/secrets.ts'

async function setUp(options: PinoLoggerOptions = {}) {
  const written: string[] = []
  const destination = { write: (line: string): void => void written.push(line) }
  const logger = await createPinoLogger({ destination, ...options })
  return { logger, written, lines: () => written.map((line) => JSON.parse(line)) }
}

test('a line is one JSON object with level, time, fields and message', async () => {
  const { logger, written, lines } = await setUp()
  logger.child({ controller: 'endpoints' }).info({ key: 'default/a' }, 'synced')
  const [{ time, ...rest }] = lines()
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, { level: 'info', controller: 'endpoints', key: 'default/a', message: 'synced' })
  assert.match(written[0] as string, /^[^\n]*\n$/)
})

test('a field whose name is no JSON fails nobody, and shows no secret', async () => {
  const { logger, written } = await setUp()
  keepSecret('opaque-token')
  logger.info({ 'a"b': 'opaque-token' }, 'said')
  assert.equal(written.length, 1)
  assert.doesNotMatch(written[0] ?? '', /opaque-token/)
})

test('a line is written by the time the call returns', async () => {
  const { logger, written } = await setUp()
  logger.error({}, 'now')
  assert.equal(written.length, 1)
})

test('levels below the one asked for are silent, info when none is', async () => {
  const messages = async (options: PinoLoggerOptions): Promise<string[]> => {
    const { logger, lines } = await setUp(options)
    for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]({}, level)
    return lines().map(({ level, message }) => `${level}:${message}`)
  }
  assert.deepEqual(await messages({}), ['info:info', 'warn:warn', 'error:error'])
  assert.deepEqual(await messages({ level: 'error' }), ['error:error'])
  assert.equal((await messages({ level: 'debug' })).length, 4)
})

test('an error is told by message and code, with its stack at debug only', async () => {
  const error = Object.assign(new Error('no answer'), { code: 'Timeout', secret: 'hidden' })
  const quiet = await setUp()
  quiet.logger.warn({ error }, 'failed')
  assert.deepEqual(quiet.lines()[0].error, { message: 'no answer', code: 'Timeout' })
  const verbose = await setUp({ level: 'debug' })
  verbose.logger.warn({ error: new Error('x') }, 'failed')
  assert.deepEqual(Object.keys(verbose.lines()[0].error), ['message', 'stack'])
})

test('what is no error is told as it is', async () => {
  const { logger, lines } = await setUp()
  logger.warn({ error: 'refused' }, 'failed')
  assert.equal(lines()[0].error, 'refused')
})

test('secrets are not written, by name or by value, however deep, in either format', async () => {
  keepSecret('SECRET-that-was-loaded')
  for (const format of ['json', 'pretty'] as const) {
    const { logger, written } = await setUp({ format })
    logger.info({ token: 'SECRET', headers: { authorization: 'SECRET', Authorization: 'SECRET' } }, 'sent')
    logger.child({ password: 'SECRET' }).info({ user: { bearerToken: 'SECRET', accessToken: 'SECRET' } }, 'sent')
    logger.info({ a: { b: [{ c: { 'refresh-token': 'SECRET', client_key_data: ['SECRET'] } }] } }, 'sent')
    const said = 'the server says "who is SECRET-that-was-loaded?"'
    logger.child({ said }).warn({ error: new Error(said), deep: { list: [{ said }] } }, said)
    assert.doesNotMatch(written.join(''), /SECRET/)
    assert.match(written.join(''), /\[redacted\]/)
  }
})

test('the pretty format is a line for a person, written at once', async () => {
  const { logger, written } = await setUp({ format: 'pretty' })
  logger.warn({ controller: 'endpoints' }, 'falling behind')
  assert.match(written.join(''), /^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: falling behind \{"controller":"endpoints"\}\n$/)
})

test('what a line tells of a cluster is one line in either format, and nothing that a terminal obeys', async () => {
  const hostile = 'a\u001b[2J\nb\u009b31m\u202e\u007f'
  for (const format of ['json', 'pretty'] as const) {
    const { logger, written } = await setUp({ format })
    logger.warn({ host: hostile }, hostile)
    assert.match(written.join(''), /^.*a\\u001b\[2J.*\n$/)
    assert.doesNotMatch(written.join(''), /(?!\n)[\p{Cc}\p{Cf}]/u)
  }
  const { logger, lines } = await setUp()
  logger.warn({ host: hostile }, 'said')
  assert.equal(lines()[0].host, hostile)
})
