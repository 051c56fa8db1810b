import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { EtcdError, type EtcdErrorCode, type EtcdKv, type KeyChange } from '../../../src/etcd/kv.ts'

/** The store against which the contract is tested. */
export interface EtcdContractTarget {
  /** kine reports leases differently. */
  readonly flavour: 'etcd' | 'kine'
  readonly etcd: EtcdKv
  /** One more client of the same store, which the case may close. */
  another(): EtcdKv
  /** Ends with a slash. Nothing else uses it, and no key is below it. */
  readonly prefix: string
  /** Lets `ms` milliseconds pass, for the store as for everything else. */
  pass(ms: number): Promise<void>
  /** Discards everything before a revision. Absent if no client can request that. */
  compact?(revision: bigint): Promise<void>
}

/** One statement of the contract. */
export interface EtcdContractCase {
  readonly name: string
  readonly run: (target: EtcdContractTarget, t: TestContext) => Promise<void>
}

/** For calls that are never aborted. */
export const patient: AbortSignal = new AbortController().signal

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function text(value: Uint8Array | undefined): string | undefined {
  return value === undefined ? undefined : new TextDecoder().decode(value)
}

/** Asserts the error's code, by which a caller decides, and returns the error. */
export async function rejectsWith(code: EtcdErrorCode, promise: Promise<unknown>): Promise<EtcdError> {
  try {
    await promise
  } catch (error) {
    assert.ok(error instanceof EtcdError, `not an EtcdError: ${error}`)
    assert.equal(error.code, code, error.message)
    return error
  }
  assert.fail(`expected ${code}, but the call succeeded`)
}

/** Creates a key that does not exist yet, and returns its revision. */
export async function created(etcd: EtcdKv, key: string, value: string, lease?: bigint): Promise<bigint> {
  const revision = await etcd.create(key, bytes(value), { lease, signal: patient })
  assert.ok(revision !== undefined, `${key} exists already`)
  return revision
}

/** Lets time pass until `condition` holds. Fails with `what` if it does not hold within `withinMs`. */
export async function until(
  target: Pick<EtcdContractTarget, 'pass'>,
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 30_000,
): Promise<void> {
  const stepMs = 20
  for (let passedMs = 0; !(await condition()); passedMs += stepMs) {
    assert.ok(passedMs < withinMs, `${what}: not within ${withinMs} ms`)
    await target.pass(stepMs)
  }
}

/** What a watch reported, in order: its state, and the changes. */
export interface Seen {
  readonly log: readonly ('established' | 'read' | 'failed')[]
  readonly changes: readonly KeyChange[]
  readonly errors: readonly unknown[]
  /** Resolves when the watch ends, for any reason. */
  readonly done: Promise<void>
  /** Ends the watch and waits for it. */
  end(): Promise<void>
}

/** Watches until the case ends the watch. Resolves when the watch is established. */
export async function watching(target: EtcdContractTarget, prefix: string, t: TestContext): Promise<Seen> {
  const seen = startWatching(target, prefix, t)
  await until(target, `a watch of ${prefix}`, () => seen.log.includes('read'))
  return seen
}

/** As {@link watching}, without waiting. */
export function startWatching({ etcd }: EtcdContractTarget, prefix: string, t: TestContext): Seen {
  const stop = new AbortController()
  const log: ('established' | 'read' | 'failed')[] = []
  const changes: KeyChange[] = []
  const errors: unknown[] = []
  const done = etcd.watch(prefix, {
    signal: stop.signal,
    onChange(batch) {
      if (batch === undefined) log.push('read')
      else changes.push(...batch)
    },
    report(error) {
      log.push(error === undefined ? 'established' : 'failed')
      if (error !== undefined) errors.push(error)
    },
  })
  const end = async (): Promise<void> => {
    stop.abort(new Error('the case is over'))
    await done
  }
  t.after(end)
  return { log, changes, errors, done, end }
}

/** A change in few words. */
export function summaryOf({ type, key, value, previousValue }: KeyChange): string {
  const before = previousValue === undefined ? '' : `${text(previousValue)} -> `
  return `${type} ${key.split('/').at(-1)} ${before}${text(value)}`.trimEnd()
}
