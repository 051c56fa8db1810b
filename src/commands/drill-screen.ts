import { printable } from '../runtime/printable.ts'
import type { Screen } from './embedded-screen.ts'

const clearLine = '\r\u001b[2K'

/** Lines as they come; on a terminal with one more below them that says how far it is, in place. */
export class DrillScreen {
  readonly #screen: Screen
  readonly #inPlace: boolean
  #progress = ''

  constructor(screen: Screen) {
    this.#screen = screen
    this.#inPlace = screen.isTTY === true
  }

  line(line: string): void {
    const text = printable(line)
    this.#screen.write(this.#inPlace ? `${clearLine}${text}\n${this.#progress}` : `${text}\n`)
  }

  /** Nowhere but on a terminal. */
  progress(line: string): void {
    if (!this.#inPlace) return
    const text = printable(line)
    const { columns = 80 } = this.#screen
    const clipped = text.length < columns ? text : `${text.slice(0, columns - 2)}…`
    if (clipped === this.#progress) return
    this.#progress = clipped
    this.#screen.write(`${clearLine}${clipped}`)
  }

  /** Takes the progress away. */
  end(): void {
    if (this.#progress !== '') this.#screen.write(clearLine)
    this.#progress = ''
  }
}
