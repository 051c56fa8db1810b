import { readFileSync } from 'node:fs'

/** Whether a process with this id runs. Where nobody reaps, one whose parent is gone stays as a zombie: it has ended. */
export function isAlive(pid: number): boolean {
  try {
    return process.platform === 'linux'
      ? !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
      : process.kill(pid, 0)
  } catch {
    return false
  }
}
