import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cleanup } from './cleanup.ts'
import { atEndOfProcess } from './last-resort.ts'

/** An empty directory that is removed with its contents when the test ends, and when this process is interrupted. */
export async function tempDir(t: Cleanup): Promise<string> {
  const { path, remove } = await makeTempDir()
  t.after(remove)
  return path
}

/** An empty directory that is removed with its contents by `remove`, and when this process is interrupted before. */
export async function makeTempDir(
  prefix = 'apiserver-bootstrap-',
): Promise<{ readonly path: string; readonly remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), prefix))
  const callOff = removeAtEndOfProcess(path)
  const remove = async (): Promise<void> => {
    await rm(path, { recursive: true, force: true })
    callOff()
  }
  return { path, remove }
}

/**
 * Removes a directory when this process ends without running the hooks of its tests. The returned function cancels
 * this.
 */
export function removeAtEndOfProcess(directory: string): () => void {
  return atEndOfProcess(() => {
    try {
      // A child that dies at this moment may still write.
      rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
    } catch {
      // Other directories must still be removed.
    }
  })
}
