import { setTimeout as sleep } from 'node:timers/promises'
import type { Etcd } from './etcd.ts'
import type { Owner } from './owner.ts'
import { revisionOf } from './stored-history.ts'
import { untilPasses } from './until.ts'

/** One version of a key, or its deletion. */
export interface StoredVersion {
  readonly key: string
  readonly revision: number
  /**
   * When it was received here, on the clock of `performance.now()`; after an outage of etcd, this may be later than the
   * write.
   */
  readonly atMs: number
  /** Undefined if the key was deleted. */
  readonly value: Buffer | undefined
}

/** All versions of some keys. */
export interface FollowedKeys {
  /** For each key in the order of its revisions. */
  readonly versions: readonly StoredVersion[]
  /** Resolves when `versions` contains all that was written before the call. Rejects while etcd is unavailable. */
  caughtUp(): Promise<void>
}

/** The members to ask, one after the other. Some or all of them may be unavailable. */
type Members = readonly Pick<Etcd, 'plainUrl' | 'call'>[]

interface Line {
  readonly result?: {
    readonly header: { readonly revision: string }
    readonly created?: boolean
    readonly compact_revision?: string
    readonly events?: readonly {
      readonly type?: 'DELETE'
      readonly kv: { readonly key: string; readonly mod_revision: string; readonly value?: string }
    }[]
  }
}

/**
 * Follows keys directly in etcd from now on, without a gap: when a watch breaks, the next one begins after the last
 * revision that was received. Ends with its owner, or with an error if etcd has compacted what was written in between.
 */
export async function followKeys(owner: Owner, members: Members, keys: readonly string[]): Promise<FollowedKeys> {
  const from = await revisionOf(members[0] as Members[number])
  const versions: StoredVersion[] = []
  const stop = new AbortController()
  const seen = new Map(keys.map((key) => [key, from]))
  const ends = keys.map((key) =>
    follow(members, key, from, stop.signal, (version) => {
      versions.push(version)
      seen.set(key, version.revision)
    }),
  )
  owner.after(async () => {
    stop.abort()
    await Promise.allSettled(ends)
  })
  return {
    versions,
    async caughtUp() {
      const written = await Promise.any(members.map((member) => lastWrites(member, keys)))
      await untilPasses(
        'the watches to have caught up',
        () => {
          for (const [key, revision] of written) {
            if ((seen.get(key) as number) < revision) throw new Error(`${key} at ${seen.get(key)} of ${revision}`)
          }
        },
        { withinMs: 10_000 },
      )
    },
  }
}

/** The revision of the last write of each existing key. */
async function lastWrites(member: Pick<Etcd, 'call'>, keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>()
  for (const key of keys) {
    const { kvs = [] } = (await member.call('/v3/kv/range', { key: base64(key) })) as {
      readonly kvs?: readonly { readonly mod_revision: string }[]
    }
    if (kvs[0] !== undefined) found.set(key, Number(kvs[0].mod_revision))
  }
  return found
}

async function follow(
  members: Members,
  key: string,
  from: number,
  signal: AbortSignal,
  onVersion: (version: StoredVersion) => void,
): Promise<void> {
  let next = from + 1
  for (let turn = 0; !signal.aborted; turn++) {
    const member = members[turn % members.length] as Members[number]
    try {
      for await (const { result } of watchLines(
        member.plainUrl,
        { key: base64(key), start_revision: String(next) },
        signal,
      )) {
        if (result?.compact_revision !== undefined) {
          next = await afterCompaction(member, key, next, result.compact_revision)
          break
        }
        for (const { type, kv } of result?.events ?? []) {
          const revision = Number(kv.mod_revision)
          next = revision + 1
          const value = type === 'DELETE' ? undefined : Buffer.from(kv.value ?? '', 'base64')
          onVersion({ key, revision, atMs: performance.now(), value })
        }
      }
    } catch (error) {
      if (error instanceof CompactedError) throw error
      // The member is unavailable: try the next one, or the same one again.
    }
    await sleep(100, undefined, { signal }).catch(() => {})
  }
}

/**
 * The revision from which to continue after etcd has compacted what was before `compacted`. Nothing is lost if the key
 * was not written from `next` to `compacted`.
 */
async function afterCompaction(member: Members[number], key: string, next: number, compacted: string): Promise<number> {
  const { kvs = [] } = (await member.call('/v3/kv/range', { key: base64(key), revision: compacted })) as {
    readonly kvs?: readonly { readonly mod_revision: string }[]
  }
  if (kvs[0] === undefined || Number(kvs[0].mod_revision) >= next) throw new CompactedError(key, next)
  return Number(compacted) + 1
}

class CompactedError extends Error {
  constructor(key: string, revision: number) {
    super(`etcd has forgotten what became of ${key} after revision ${revision - 1}`)
  }
}

async function* watchLines(url: string, create: object, signal: AbortSignal): AsyncGenerator<Line> {
  const end = new AbortController()
  const abort = (): void => end.abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    const { body } = await fetch(`${url}/v3/watch`, {
      method: 'POST',
      body: JSON.stringify({ create_request: create }),
      headers: { connection: 'close' },
      signal: end.signal,
    })
    if (body === null) return
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of body) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() as string
      for (const line of lines) yield JSON.parse(line) as Line
    }
  } finally {
    signal.removeEventListener('abort', abort)
    end.abort()
  }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
