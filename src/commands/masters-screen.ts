import type { Screen } from './embedded-screen.ts'

/** Shows a picture again and again: in place on a terminal, no wider than it; elsewhere whenever there is something new to see. */
export class MastersScreen {
  readonly #screen: Screen
  readonly #linewise: boolean
  #drawnLines = 0
  #shown: string | undefined

  /** `linewise`: the pictures are single lines, for programs: nothing is put between them. */
  constructor(screen: Screen, options: { readonly linewise?: boolean } = {}) {
    this.#screen = screen
    this.#linewise = options.linewise ?? false
  }

  /** `key` changes with what a person would call a difference; the lines may change without it. */
  show(lines: readonly string[], key: string): void {
    if (this.#screen.isTTY) {
      const { columns = 80, rows = 24 } = this.#screen
      // The cursor stands below the last line.
      const visible = lines.slice(0, rows - 1).map((line) => clip(line, columns))
      const back = this.#drawnLines === 0 ? '' : `\u001b[${this.#drawnLines}A`
      this.#screen.write(`${back}\u001b[0J${visible.join('\n')}\n`)
      this.#drawnLines = visible.length
    } else if (key !== this.#shown) {
      const gap = this.#shown === undefined || this.#linewise ? '' : '\n'
      this.#screen.write(`${gap}${lines.join('\n')}\n`)
    }
    this.#shown = key
  }
}

function clip(line: string, columns: number): string {
  return line.length > columns ? `${line.slice(0, columns - 1)}…` : line
}
