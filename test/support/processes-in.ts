import { readdir, readlink } from 'node:fs/promises'
import { join, sep } from 'node:path'

/**
 * The ids of the processes that work in a directory or below it: a program's own children too, which nobody here
 * started. Linux only; elsewhere none are found.
 */
export async function processesIn(directory: string): Promise<readonly number[]> {
  const names = await readdir('/proc').catch(() => [])
  const found = await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map(async (name) => {
        // One that has ended, or that is somebody else's, has no directory to read.
        const cwd = await readlink(join('/proc', name, 'cwd')).catch(() => '')
        return `${cwd}${sep}`.startsWith(`${directory}${sep}`) ? [Number(name)] : []
      }),
  )
  return found.flat()
}

/** Ends what {@link processesIn} finds, at once. */
export async function endProcessesIn(directory: string): Promise<void> {
  for (const pid of await processesIn(directory)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}
