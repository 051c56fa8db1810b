import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { Etcd } from './etcd.ts'

/** A write of a key. */
export interface StoredWrite {
  readonly revision: number
  readonly value: Buffer
}

interface Line {
  readonly result: {
    readonly events?: readonly { readonly kv: { readonly mod_revision: string; readonly value: string } }[]
  }
}

/** The present revision of etcd. */
export async function revisionOf(etcd: Pick<Etcd, 'call'>): Promise<number> {
  const { header } = (await etcd.call('/v3/kv/range', { key: Buffer.from('/').toString('base64') })) as {
    readonly header: { readonly revision: string }
  }
  return Number(header.revision)
}

/** Every write of a key after a revision, including the present one. The key must never be deleted. */
export async function writesSince(etcd: Etcd, key: string, revision: number): Promise<readonly StoredWrite[]> {
  const encoded = Buffer.from(key).toString('base64')
  const { kvs = [] } = (await etcd.call('/v3/kv/range', { key: encoded })) as { kvs?: { mod_revision: string }[] }
  const last = Number(kvs[0]?.mod_revision ?? 0)
  const writes: StoredWrite[] = []
  if (last <= revision) return writes
  const end = new AbortController()
  const { body } = await fetch(`${etcd.url}/v3/watch`, {
    method: 'POST',
    body: JSON.stringify({ create_request: { key: encoded, start_revision: String(revision + 1) } }),
    headers: { connection: 'close' },
    signal: end.signal,
  })
  if (body === null) throw new Error('etcd gave no stream')
  const input = Readable.fromWeb(body)
  for await (const line of createInterface({ input })) {
    const { result } = JSON.parse(line) as Line
    for (const { kv } of result.events ?? [])
      writes.push({ revision: Number(kv.mod_revision), value: Buffer.from(kv.value, 'base64') })
    if ((writes.at(-1)?.revision ?? 0) >= last) break
  }
  input.destroy()
  end.abort()
  return writes
}
