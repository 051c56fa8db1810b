import { type ChildProcess, spawn } from 'node:child_process'

// The guarded are lists of words between blanks; a word is taken out by cutting the list at it.
const SCRIPT = `
trap '' INT TERM HUP
groups=' ' directories=' '
while read -r operation word; do
  case $operation in
    group+) groups="$groups$word " ;;
    group-) groups="\${groups%% $word *} \${groups#* $word }" ;;
    directory+) directories="$directories$word " ;;
    directory-) directories="\${directories%% $word *} \${directories#* $word }" ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ -z "\${directories# }" ] || { sleep 0.2; rm -rf $directories; }
`

/**
 * A shell that ends what this process started and did not end itself, whatever ends this process: it holds the other end of a pipe, and acts
 * when that closes.
 */
export class Watchdog {
  readonly #shell: ChildProcess

  constructor() {
    this.#shell = spawn('sh', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
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

  /** Its path must hold no blanks. */
  guardDirectory(directory: string): void {
    this.#tell(`directory+ ${directory}`)
  }

  releaseDirectory(directory: string): void {
    this.#tell(`directory- ${directory}`)
  }

  /** It ends what is still guarded, and itself. */
  close(): void {
    this.#shell.stdin?.end()
  }

  #tell(line: string): void {
    this.#shell.stdin?.write(`${line}\n`)
  }
}
