import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { EtcdError, type EtcdErrorCode, type EtcdKv, type KeyChange } from '../../../src/etcd/kv.ts'

/** What the contract is held against. */
export interface EtcdContractTarget {
  /** kine differs in what it says of leases. */
  readonly flavour: 'etcd' | 'kine'
  readonly etcd: EtcdKv
  /** One more client of the same store, which the case may close. */
  another(): EtcdKv
  /** Ends in a slash; nobody else uses it, and nothing is under it. */
  readonly prefix: string
  /** Lets so many milliseconds pass, for the store as for everybody. */
  pass(ms: number): Promise<void>
  /** Forgets everything before a revision; left out where nobody can have that done. */
  compact?(revision: bigint): Promise<void>
}

/** One sentence of the contract. */
export interface EtcdContractCase {
  readonly name: string
  readonly run: (target: EtcdContractTarget, t: TestContext) => Promise<void>
}

/** For calls that nobody gives up. */
export const patient: AbortSignal = new AbortController().signal

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function text(value: Uint8Array | undefined): string | undefined {
  return value === undefined ? undefined : new TextDecoder().decode(value)
}

/** The errors' code is what a caller decides by: asserts it, and returns the error. */
export async function rejectsWith(code: EtcdErrorCode, promise: Promise<unknown>): Promise<EtcdError> {
  try {
    await promise
  } catch (error) {
    assert.ok(error instanceof EtcdError, `not an EtcdError: ${error}`)
    assert.equal(error.code, code, error.message)
    return error
  }
  assert.fail(`expected ${code}, but it was done`)
}

/** Creates a key that is known not to exist; its revision. */
export async function created(etcd: EtcdKv, key: string, value: string, lease?: bigint): Promise<bigint> {
  const revision = await etcd.create(key, bytes(value), { lease, signal: patient })
  assert.ok(revision !== undefined, `${key} exists already`)
  return revision
}

/** Lets time pass until `condition` holds; fails, naming `what`, when it does not within `withinMs`. */
export async function until(
  target: EtcdContractTarget,
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  const stepMs = 20
  for (let passedMs = 0; !(await condition()); passedMs += stepMs) {
    assert.ok(passedMs < withinMs, `${what}: not within ${withinMs} ms`)
    await target.pass(stepMs)
  }
}

/** What a watch said, in its order: how it fares, and the changes. */
export interface Seen {
  readonly log: readonly ('stands' | 'look' | 'broke')[]
  readonly changes: readonly KeyChange[]
  readonly errors: readonly unknown[]
  /** Resolves when it ends, whoever ended it. */
  readonly done: Promise<void>
  /** Ends the watch and waits for it. */
  end(): Promise<void>
}

/** Watches until the case ends it; resolves when the watch stands. */
export async function watching(target: EtcdContractTarget, prefix: string, t: TestContext): Promise<Seen> {
  const seen = startWatching(target, prefix, t)
  await until(target, `a watch of ${prefix}`, () => seen.log.includes('look'))
  return seen
}

/** As {@link watching}, without waiting. */
export function startWatching({ etcd }: EtcdContractTarget, prefix: string, t: TestContext): Seen {
  const stop = new AbortController()
  const log: ('stands' | 'look' | 'broke')[] = []
  const changes: KeyChange[] = []
  const errors: unknown[] = []
  const done = etcd.watch(prefix, {
    signal: stop.signal,
    onChange(batch) {
      if (batch === undefined) log.push('look')
      else changes.push(...batch)
    },
    report(error) {
      log.push(error === undefined ? 'stands' : 'broke')
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
export function inWords({ type, key, value, previousValue }: KeyChange): string {
  const before = previousValue === undefined ? '' : `${text(previousValue)} -> `
  return `${type} ${key.split('/').at(-1)} ${before}${text(value)}`.trimEnd()
}
