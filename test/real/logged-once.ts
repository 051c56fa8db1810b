import assert from 'node:assert/strict'
import type { LogLine } from '../peers/program.ts'

/**
 * Asserts that each change of state is one line: the log of one disturbance contains no line twice. Lines about
 * different things may share their message, because they name different things.
 */
export function assertLoggedOnce(log: readonly LogLine[]): void {
  const logged = new Set<string>()
  for (const { time: _time, durationMs: _durationMs, ...line } of log) {
    const text = JSON.stringify(line)
    assert.ok(!logged.has(text), `logged twice: ${text}\n${log.map((each) => JSON.stringify(each)).join('\n')}`)
    logged.add(text)
  }
  const messages = log.map(({ message }) => message)
  for (const message of ['cannot reach the API server', 'lost the API server', 'the API server is back']) {
    const times = messages.filter((each) => each === message).length
    assert.ok(times <= 1, `"${message}" ${times} times:\n${log.map((each) => JSON.stringify(each)).join('\n')}`)
  }
}
