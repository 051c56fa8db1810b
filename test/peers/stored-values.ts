import type { Etcd } from './etcd.ts'

/** The tests' own access to etcd, through its JSON gateway. It shares no code with the program. */

/** The values under a prefix, by key. */
export async function storedValues(etcd: Etcd, prefix: string): Promise<ReadonlyMap<string, Buffer>> {
  const end = Buffer.from(prefix)
  end[end.length - 1] = (end.at(-1) as number) + 1
  const found = await entries(etcd, { key: base64(prefix), range_end: end.toString('base64') })
  return new Map(found.map(({ key, value }) => [key, value]))
}

/** Writes a value, regardless of what is stored. */
export async function storeValue(etcd: Etcd, key: string, value: Uint8Array): Promise<void> {
  await post(etcd, 'put', { key: base64(key), value: base64(value) })
}

/**
 * Changes the value of an existing key in one step: if another client has written it meanwhile, repeats the change on
 * the new value. Resolves to the revision of the write.
 */
export async function changeValue(etcd: Etcd, key: string, change: (value: Buffer) => Uint8Array): Promise<number> {
  for (;;) {
    const [found] = await entries(etcd, { key: base64(key) })
    if (found === undefined) throw new Error(`no ${key}`)
    const { succeeded = false, header } = (await post(etcd, 'txn', {
      compare: [{ key: base64(key), target: 'MOD', result: 'EQUAL', modRevision: found.mod_revision }],
      success: [{ requestPut: { key: base64(key), value: base64(change(found.value)) } }],
    })) as { readonly succeeded?: boolean; readonly header: Header }
    if (succeeded) return Number(header.revision)
  }
}

/** Removes a key. Resolves to the revision of the removal, or undefined if there was no such key. */
export async function removeValue(etcd: Etcd, key: string): Promise<number | undefined> {
  const { deleted, header } = (await post(etcd, 'deleterange', { key: base64(key) })) as {
    readonly deleted?: string
    readonly header: Header
  }
  return deleted === '1' ? Number(header.revision) : undefined
}

/** How often a key was written since it was created; 0 if there is none. */
export async function timesWritten(etcd: Etcd, key: string): Promise<number> {
  const [found] = await entries(etcd, { key: base64(key) })
  return Number(found?.version ?? 0)
}

/** Removes values as fast as possible, each at its own revision, as API servers do. */
export async function removeValues(etcd: Etcd, keys: readonly string[]): Promise<void> {
  const left = [...keys]
  const worker = async (): Promise<void> => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) await removeValue(etcd, key)
  }
  await Promise.all(Array.from({ length: 16 }, worker))
}

/** Writes and removes values at one revision, so that no client sees only a part of the change. */
export async function storeAtOnce(
  etcd: Etcd,
  change: { readonly put: ReadonlyMap<string, Uint8Array>; readonly remove: readonly string[] },
): Promise<void> {
  const puts = [...change.put].map(([key, value]) => ({ requestPut: { key: base64(key), value: base64(value) } }))
  const removals = change.remove.map((key) => ({ requestDeleteRange: { key: base64(key) } }))
  await post(etcd, 'txn', { success: [...puts, ...removals] })
}

interface Header {
  readonly revision: string
}

interface Entry {
  readonly key: string
  readonly value: Buffer
  readonly mod_revision: string
  readonly version: string
}

async function entries(
  etcd: Etcd,
  request: { readonly key: string; readonly range_end?: string },
): Promise<readonly Entry[]> {
  const { kvs = [] } = (await post(etcd, 'range', request)) as {
    readonly kvs?: readonly (Omit<Entry, 'value'> & { readonly value?: string })[]
  }
  return kvs.map((kv) => ({
    ...kv,
    key: Buffer.from(kv.key, 'base64').toString(),
    value: Buffer.from(kv.value ?? '', 'base64'),
  }))
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
