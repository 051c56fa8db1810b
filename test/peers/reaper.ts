import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { atEndOfProcess } from '../support/last-resort.ts'

// Ends what the harness started, however the harness ends. If this process can still run code, it kills every live
// process group and removes every temporary directory at its exit. If it cannot (SIGKILL), a shell at the other end of
// a pipe does the same when the pipe closes. Both exist only while there is something to guard.

const groups = new Set<number>()
const directories = new Set<string>()
let watchdog: ChildProcess | undefined
let callOff = (): void => {}

// The guarded groups are words between blanks; a word is removed by joining what is before it and what is after it. The
// directories are the positional parameters, because their paths may contain blanks and patterns.
const watchdogScript = `
trap '' INT TERM HUP
groups=' '
while read -r operation word; do
  case $operation in
    group+) groups="$groups$word " ;;
    group-) groups="\${groups%% $word *} \${groups#* $word }" ;;
    directory+) set -- "$@" "$word" ;;
    directory-) for one do shift; [ "$one" = "$word" ] || set -- "$@" "$one"; done ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ $# -eq 0 ] || { sleep 0.2; rm -rf -- "$@"; }
`

/** Ensures that the process group is killed at the end of this process, unless it is released before. */
export function guardGroup(group: number): void {
  groups.add(group)
  writeToWatchdog(`group+ ${group}`)
}

export function releaseGroup(group: number): void {
  if (groups.delete(group)) writeToWatchdog(`group- ${group}`)
}

/** Ensures that the directory is removed at the end of this process, unless it is released before. */
export function guardDirectory(directory: string): void {
  // The watchdog reads one path per line.
  if (directory.includes('\n')) throw new Error(`a line break in a path: ${JSON.stringify(directory)}`)
  directories.add(directory)
  writeToWatchdog(`directory+ ${directory}`)
}

export function releaseDirectory(directory: string): void {
  if (directories.delete(directory)) writeToWatchdog(`directory- ${directory}`)
}

function writeToWatchdog(line: string): void {
  watchdog ??= startWatchdog()
  watchdog.stdin?.write(`${line}\n`)
  if (groups.size === 0 && directories.size === 0) {
    watchdog.stdin?.end()
    watchdog = undefined
    callOff()
  }
}

function startWatchdog(): ChildProcess {
  const shell = spawn('sh', ['-c', watchdogScript], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  shell.unref()
  // If the shell is gone, only this safeguard is missing; nothing else is wrong.
  shell.stdin.on('error', () => {})
  callOff = atEndOfProcess(endEverything)
  return shell
}

function endEverything(): void {
  for (const group of groups) killGroup(group)
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
}

/** SIGKILL to a whole process group, if it is still there. */
export function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // It is gone already.
  }
}
