import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cleanup } from '../support/cleanup.ts'
import { guardDirectory, releaseDirectory } from './reaper.ts'

/**
 * Whoever started things belong to. They are ended when their owner is done, the youngest first, so that nothing is taken away
 * from under what was built upon it.
 */
export interface Owner extends Cleanup {
  close(): Promise<void>
}

/** An owner that is done when `parent` is: a test, a suite (`{ after }` of node:test), or nobody for programs that call `close`. */
export function openOwner(parent?: Cleanup): Owner {
  const undos: (() => void | Promise<void>)[] = []
  const close = async (): Promise<void> => {
    const errors: unknown[] = []
    for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) {
      await Promise.resolve()
        .then(undo)
        .catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw new AggregateError(errors, 'could not end everything that was started')
  }
  parent?.after(close)
  return { after: (undo) => void undos.push(undo), close }
}

/** A directory that lives as long as its owner. */
export function temporaryDirectory(owner: Owner, name: string): string {
  const directory = mkdtempSync(join(tmpdir(), `apiserver-bootstrap-${name}-`))
  guardDirectory(directory)
  owner.after(() => {
    rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
    releaseDirectory(directory)
  })
  return directory
}
