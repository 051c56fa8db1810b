import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cleanup } from './cleanup.ts'

/** An empty directory that is removed with everything in it when the test ends. */
export async function tempDir(t: Cleanup): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}
