import { randomUUID } from 'node:crypto'
import { mkdtemp, open, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getOrMake } from './memo.ts'

const readings = new Map<string, Promise<Buffer>>()

/**
 * The largest file that is read, in bytes: no Secret is larger. Reading and parsing a much larger file would delay
 * renewals of the lease.
 */
const MOST_BYTES = 1024 * 1024
const CHUNK_BYTES = 64 * 1024

/**
 * The text of a file with a configuration, certificate, key or token. Rejects with the code EFBIG if it has more than 1
 * MiB.
 *
 * Callers share a reading that is in progress. Otherwise each reading that hangs, such as on a network file system
 * whose server is gone, would take another of the four threads in which Node reads files and resolves host names.
 */
export async function readText(file: string): Promise<string> {
  const bytes = await read(file, MOST_BYTES)
  if (bytes.length > MOST_BYTES) throw Object.assign(new Error('it has more than 1 MiB'), { code: 'EFBIG' })
  return bytes.toString()
}

/** As {@link readText}, but of a file with more than `most` bytes the text of the first `most` + 1. */
export async function readStart(file: string, most = MOST_BYTES): Promise<string> {
  return (await read(file, most)).toString()
}

function read(file: string, most: number): Promise<Buffer> {
  const key = `${most} ${file}`
  return getOrMake(readings, key, () => readBeyond(file, most).finally(() => readings.delete(key)))
}

/**
 * Makes `process.exit` end this process even while a reading hangs, where Node has `process.execve`. Node waits for its
 * threads before it ends, so another program takes the place of this one, and exits with the same code.
 */
export function exitDespiteReadings(): void {
  process.on('exit', function end(code) {
    if (readings.size === 0 || process.execve === undefined) return
    // The other listeners remove temporary files, and may have been added later than this one.
    process.off('exit', end)
    process.emit('exit', code)
    process.execve(process.execPath, [process.execPath, '--eval', `process.exit(${code})`], {})
  })
}

/** All bytes of a file, or the first `most` + 1. */
async function readBeyond(file: string, most: number): Promise<Buffer> {
  const handle = await open(file)
  try {
    const chunks: Buffer[] = []
    let size = 0
    // The size that the system reports limits nothing: it is 0 for a FIFO or a device, and a file can grow.
    while (size <= most) {
      const length = Math.min(CHUNK_BYTES, most + 1 - size)
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(length), 0, length)
      if (bytesRead === 0) break
      chunks.push(buffer.subarray(0, bytesRead))
      size += bytesRead
    }
    return Buffer.concat(chunks)
  } finally {
    await handle.close()
  }
}

/**
 * Replaces a file, and follows no link: in a directory that others can write, a link may lead to any of our files.
 * `write` must create the file that it is given, and fail if that exists. After a failure the old file is unchanged.
 */
export async function replaceFile(file: string, write: (next: string) => Promise<void>): Promise<void> {
  const next = `${file}.${randomUUID()}`
  try {
    await write(next)
    await rename(next, file)
  } catch (error) {
    await rm(next, { force: true })
    throw error
  }
}

/** Makes a new directory that only this user can read. Rejects with a line that names TMPDIR. */
export async function makeTemporaryDirectory(prefix: string): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), prefix))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new Error(`cannot make a directory in ${tmpdir()} (${code}): set TMPDIR to another directory`, { cause })
  }
}
