import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { eventually } from './with-timeout.ts'

/** Creates a pipe that nobody writes to: reading it hangs, like a file on a server that is gone. */
export function makeHangingFile(file: string): void {
  execFileSync('mkfifo', [file])
}

/** Ends the reads of a pipe. Waits for a read to begin, because otherwise its thread would keep the process alive. */
export async function endReadingsOf(file: string): Promise<void> {
  await eventually('a reading of the pipe', () => {
    try {
      closeSync(openSync(file, constants.O_WRONLY | constants.O_NONBLOCK))
      return true
    } catch {
      return false
    }
  })
}
