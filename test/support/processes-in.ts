import { readdir, readlink } from 'node:fs/promises'
import { join, sep } from 'node:path'

/**
 * The ids of the processes that work in a directory or below it, including children that a program itself started.
 * Linux only; elsewhere none are found.
 */
export async function processesIn(directory: string): Promise<readonly number[]> {
  const names = await readdir('/proc').catch(() => [])
  const found = await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map(async (name) => {
        // A process that has ended, or that belongs to another user, has no readable directory.
        const cwd = await readlink(join('/proc', name, 'cwd')).catch(() => '')
        return `${cwd}${sep}`.startsWith(`${directory}${sep}`) ? [Number(name)] : []
      }),
  )
  return found.flat()
}

/** Kills the processes that {@link processesIn} finds. */
export async function endProcessesIn(directory: string): Promise<void> {
  for (const pid of await processesIn(directory)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}
