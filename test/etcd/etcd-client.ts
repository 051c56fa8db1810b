import assert from 'node:assert/strict'
import { type ConnectEtcdOptions, connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { EtcdError, type EtcdErrorCode, type EtcdKv, type KeyChange } from '../../src/etcd/kv.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { untilPasses } from '../peers/until.ts'
import type { Cleanup } from '../support/cleanup.ts'

/** For calls that are never aborted. */
export const patient: AbortSignal = new AbortController().signal

/** The program's own client of real servers, closed after the test. */
export function openClient(
  t: Cleanup,
  urls: readonly string[],
  options: Omit<ConnectEtcdOptions, 'endpoints' | 'clock'> = {},
): EtcdKv {
  const etcd = connectEtcd({ endpoints: urls.map(parseEndpoint), clock: systemClock, ...options })
  t.after(() => etcd.close())
  return etcd
}

/** Asserts that a call fails with `code` and a message of one line that matches `words`. Returns the line. */
export async function refusedWith(code: EtcdErrorCode, call: Promise<unknown>, ...words: RegExp[]): Promise<string> {
  const error = await call.then(
    () => assert.fail(`expected ${code}, but the call succeeded`),
    (error: unknown) => error,
  )
  assert.ok(error instanceof EtcdError, `not an EtcdError: ${error}`)
  assert.equal(error.code, code, error.message)
  assert.match(error.message, /^etcd [^\n]{10,400}$/)
  for (const word of words) assert.match(error.message, word)
  return error.message
}

/** What a watch reported: `established`, `read`, the code of the error that ended it, and changes as `type name`. */
export interface WatchLog {
  readonly lines: readonly string[]
  readonly errors: readonly EtcdError[]
  /** Resolves when the watch has reported `line` since the last call. */
  next(line: string): Promise<void>
  end(): Promise<void>
}

export async function openWatch(t: Cleanup, etcd: EtcdKv, prefix: string): Promise<WatchLog> {
  const watch = startWatch(t, etcd, prefix)
  await watch.next('read')
  return watch
}

/** As {@link openWatch}, but does not wait until the watch is established. */
export function startWatch(t: Cleanup, etcd: EtcdKv, prefix: string): WatchLog {
  const stop = new AbortController()
  const lines: string[] = []
  const errors: EtcdError[] = []
  let read = 0
  const done = etcd.watch(prefix, {
    signal: stop.signal,
    onChange(changes) {
      if (changes === undefined) lines.push('read')
      else lines.push(...changes.map(({ type, key }: KeyChange) => `${type} ${key.slice(prefix.length)}`))
    },
    report(error) {
      if (error instanceof EtcdError) errors.push(error)
      lines.push(error === undefined ? 'established' : error instanceof EtcdError ? error.code : String(error))
    },
  })
  const end = async (): Promise<void> => {
    stop.abort(new Error('the test is over'))
    await done
  }
  t.after(end)
  return {
    lines,
    errors,
    async next(line) {
      await untilPasses(
        `${line} in the watch`,
        () => {
          const found = lines.indexOf(line, read)
          assert.notEqual(found, -1, lines.slice(read).join(', '))
          read = found + 1
        },
        { withinMs: 30_000, everyMs: 10 },
      )
    },
    end,
  }
}

/** Repeats a call until it succeeds, whatever error it fails with before. */
export function untilDone<T>(what: string, call: () => Promise<T>, withinMs = 30_000): Promise<T> {
  return untilPasses(what, call, { withinMs })
}

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}
