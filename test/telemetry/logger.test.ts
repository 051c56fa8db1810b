import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryLogger } from '../../src/telemetry/logger.ts'

test('a memory logger also stores the lines of its children, each with its inherited fields', () => {
  const logger = memoryLogger()
  const child = logger.child({ controller: 'endpoints' })
  logger.info({}, 'first')
  child.warn({ key: 'a' }, 'second')
  child.child({ controller: 'inner' }).error({}, 'third')
  logger.debug({ n: 1 }, 'fourth')
  assert.deepEqual(logger.lines, [
    { level: 'info', fields: {}, message: 'first' },
    { level: 'warn', fields: { controller: 'endpoints', key: 'a' }, message: 'second' },
    { level: 'error', fields: { controller: 'inner' }, message: 'third' },
    { level: 'debug', fields: { n: 1 }, message: 'fourth' },
  ])
})
