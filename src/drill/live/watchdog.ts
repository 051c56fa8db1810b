import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'

// The guarded are a list of numbers between blanks; one is taken out by cutting the list at it.
const SCRIPT = `
trap '' INT TERM HUP
groups=' '
while read -r operation group; do
  case $operation in
    group+) groups="$groups$group " ;;
    group-) groups="\${groups%% $group *} \${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ -z "$1" ] || { sleep 0.2; rm -rf -- "$1"; }
`

/**
 * A shell that ends what this process started and did not end itself, and removes its directory, whatever ends this process: it holds the other
 * end of a pipe, and acts when that closes.
 */
export class Watchdog {
  readonly #shell: ChildProcess

  /** The directory is removed with all that is in it. */
  constructor(directory?: string) {
    // An argument is no part of the script, whatever is in it.
    const args = ['-c', SCRIPT, 'watchdog', directory === undefined ? '' : resolve(directory)]
    this.#shell = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
    this.#shell.unref()
    // Without it there is one line of defence less, and nothing else is wrong.
    this.#shell.on('error', () => {})
    this.#shell.stdin?.on('error', () => {})
  }

  guardGroup(group: number): void {
    this.#tell(`group+ ${group}`)
  }

  releaseGroup(group: number): void {
    this.#tell(`group- ${group}`)
  }

  /** It ends what is still guarded, removes the directory, and ends itself. */
  close(): void {
    this.#shell.stdin?.end()
  }

  #tell(line: string): void {
    this.#shell.stdin?.write(`${line}\n`)
  }
}
