import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { atEndOfProcess } from '../support/last-resort.ts'

// Ends what the harness started, whatever ends the harness. While this process can still run code, its exit kills every live
// process group and removes every temporary directory. Where it cannot (SIGKILL), a shell that holds the other end of a pipe
// does the same when the pipe closes. Both are there only while there is something to guard.

const groups = new Set<number>()
const directories = new Set<string>()
let watchdog: ChildProcess | undefined
let callOff = (): void => {}

// Guarded groups are a list of words between blanks, from which a word is taken by cutting it there. Directories are the
// positional parameters: their paths may hold blanks and patterns.
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

/** Has the process group killed at the end of this process, unless it is released before. */
export function guardGroup(group: number): void {
  groups.add(group)
  tellWatchdog(`group+ ${group}`)
}

export function releaseGroup(group: number): void {
  if (groups.delete(group)) tellWatchdog(`group- ${group}`)
}

/** Has the directory removed at the end of this process, unless it is released before. */
export function guardDirectory(directory: string): void {
  // The watchdog takes a line for a path.
  if (directory.includes('\n')) throw new Error(`a line break in a path: ${JSON.stringify(directory)}`)
  directories.add(directory)
  tellWatchdog(`directory+ ${directory}`)
}

export function releaseDirectory(directory: string): void {
  if (directories.delete(directory)) tellWatchdog(`directory- ${directory}`)
}

function tellWatchdog(line: string): void {
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
  // Without it there is one line of defence less, and nothing else is wrong.
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
