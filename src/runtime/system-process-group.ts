/**
 * Sends SIGKILL to a process group. Does nothing if no process is left in the group. While one is left, no other group
 * can have this number.
 */
export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // No process is left in the group.
  }
}
