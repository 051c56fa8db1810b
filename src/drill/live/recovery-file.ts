import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KubeObject } from '../../kube/json.ts'

/** Keeps what a drill found and could not put back, for this user alone, where nobody can have put a file or a link before; resolves with its path. */
export async function writeRecoveryFile(found: KubeObject): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-found-'))
  const file = join(directory, 'default-kubernetes.json')
  await writeFile(file, `${JSON.stringify(found, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' })
  return file
}
