import type { EtcdKv } from '../../../src/etcd/kv.ts'
import { patient } from './contract.ts'

/** Deletes a key, whatever is there. */
export async function deleteKey(etcd: EtcdKv, key: string): Promise<void> {
  for (;;) {
    const stored = await etcd.get(key, patient)
    if (stored === undefined || (await etcd.delete(key, stored.modRevision, patient))) return
  }
}

/** Writes a key, whatever is there, as another process would. */
export async function overwriteKey(etcd: EtcdKv, key: string, value: Uint8Array): Promise<void> {
  for (;;) {
    const stored = await etcd.get(key, patient)
    const written =
      stored === undefined
        ? await etcd.create(key, value, { signal: patient })
        : await etcd.update(key, value, stored.modRevision, { signal: patient })
    if (written !== undefined) return
  }
}
