import type { Etcd } from './etcd.ts'

/** The tests' own way to what is stored in etcd: its JSON gateway, which shares no code with the program. */

/** The values under a prefix, by key. */
export async function storedValues(etcd: Etcd, prefix: string): Promise<ReadonlyMap<string, Buffer>> {
  const end = Buffer.from(prefix)
  end[end.length - 1] = (end.at(-1) as number) + 1
  const answer = await post(etcd, 'range', { key: base64(prefix), range_end: end.toString('base64') })
  const { kvs = [] } = answer as { kvs?: readonly { readonly key: string; readonly value?: string }[] }
  return new Map(
    kvs.map(({ key, value = '' }) => [Buffer.from(key, 'base64').toString(), Buffer.from(value, 'base64')]),
  )
}

/** Writes a value, whatever is there. */
export async function storeValue(etcd: Etcd, key: string, value: Uint8Array): Promise<void> {
  await post(etcd, 'put', { key: base64(key), value: base64(value) })
}

/** Writes and removes values at one revision, so that nobody sees some of it. */
export async function storeAtOnce(
  etcd: Etcd,
  change: { readonly put: ReadonlyMap<string, Uint8Array>; readonly remove: readonly string[] },
): Promise<void> {
  const puts = [...change.put].map(([key, value]) => ({ requestPut: { key: base64(key), value: base64(value) } }))
  const removals = change.remove.map((key) => ({ requestDeleteRange: { key: base64(key) } }))
  await post(etcd, 'txn', { success: [...puts, ...removals] })
}

async function post(etcd: Etcd, method: string, body: unknown): Promise<unknown> {
  const response = await fetch(`${etcd.url}/v3/kv/${method}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { connection: 'close' },
    signal: AbortSignal.timeout(5_000),
  })
  if (!response.ok) throw new Error(`etcd refused the ${method}: ${await response.text()}`)
  return response.json()
}

function base64(content: string | Uint8Array): string {
  return Buffer.from(content).toString('base64')
}
