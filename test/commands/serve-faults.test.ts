import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseFault } from '../../src/commands/serve-faults.ts'

for (const [text, fault] of [
  ['status=503', { type: 'status', status: 503 }],
  ['delay=200ms', { type: 'delay', ms: 200 }],
  ['refuse', { type: 'refuse' }],
  ['garbage', { type: 'garbage' }],
  ['lose-request', { type: 'drop', lost: 'request' }],
  ['lose-answer', { type: 'drop', lost: 'answer' }],
  ['lose-events', { type: 'lose' }],
  ['cut-watch=0', { type: 'cut', afterEvents: 0 }],
] as const) {
  test(`--fault ${text}`, () => {
    assert.deepEqual(parseFault(text), fault)
  })
}

for (const text of [
  '',
  'status',
  'status=200',
  'status=x',
  'status=500=1',
  'refuse=1',
  'cut-watch',
  'cut-watch=-1',
  'cut-watch=3=x',
  'delay',
  'delay=-1s',
  'delay=1s=9s',
  'refuse=',
  'refuse==',
  'other',
]) {
  test(`--fault ${text || '(empty)'} is rejected with one line that lists the accepted values`, () => {
    assert.throws(() => parseFault(text), /^Error: must be status=400 to status=599, .* or lose-events$/)
  })
}
