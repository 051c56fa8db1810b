import { readFileSync } from 'node:fs'

/** Whether a process with this id runs. A zombie has ended: it remains if its parent is gone and nothing reaps it. */
export function isAlive(pid: number): boolean {
  try {
    return process.platform === 'linux'
      ? !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
      : process.kill(pid, 0)
  } catch {
    return false
  }
}
