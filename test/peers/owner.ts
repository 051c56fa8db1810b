import { existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cleanup } from '../support/cleanup.ts'
import { guardDirectory, releaseDirectory } from './reaper.ts'

/**
 * The owner of things that were started. They are ended when their owner is done, the youngest first, so that nothing
 * ends before what depends on it.
 */
export interface Owner extends Cleanup {
  /** Shows `text` with a failed test, before anything is ended. */
  explain(text: () => string): void
  close(): Promise<void>
}

/** What a test's context has beyond a suite's hooks. */
interface Judged extends Cleanup {
  readonly passed?: boolean
  diagnostic?(text: string): void
}

/**
 * An owner that is done when `parent` is: a test or a suite (`{ after }` of node:test). Programs without a parent call
 * `close`.
 */
export function openOwner(parent?: Judged): Owner {
  const undos: (() => void | Promise<void>)[] = []
  const explanations: (() => string)[] = []
  const close = async (): Promise<void> => {
    if (parent?.passed === false) for (const text of explanations) parent.diagnostic?.(text())
    const errors: unknown[] = []
    for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) {
      await Promise.resolve()
        .then(undo)
        .catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw new AggregateError(errors, 'could not end everything that was started')
  }
  parent?.after(close)
  return {
    after: (undo) => void undos.push(undo),
    explain: (text) => void explanations.push(text),
    close,
  }
}

/** A directory that lives as long as its owner. */
export function temporaryDirectory(owner: Owner, name: string): string {
  return createDirectory(owner, tmpdir(), name)
}

/** Linux's file system in memory. A container may have none, or one of 64 MiB. */
const inMemory = '/dev/shm'
const roomForData = 2 * 2 ** 30

/**
 * A {@link temporaryDirectory} for the data of a server, in memory if there is room. On a disk that another program
 * keeps busy, a server can wait for seconds, even if it does not sync its writes. This would appear as a fault of the
 * tested program.
 */
export function dataDirectory(owner: Owner, name: string): string {
  return createDirectory(owner, hasRoom(inMemory) ? inMemory : tmpdir(), name)
}

function hasRoom(directory: string): boolean {
  if (!existsSync(directory)) return false
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize >= roomForData
}

function createDirectory(owner: Owner, parent: string, name: string): string {
  const directory = mkdtempSync(join(parent, `apiserver-bootstrap-${name}-`))
  guardDirectory(directory)
  owner.after(() => {
    rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
    releaseDirectory(directory)
  })
  return directory
}
