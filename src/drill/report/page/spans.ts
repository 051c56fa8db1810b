/** Something that was so for a while; in milliseconds since time 0. */
export interface Span<State extends string = string> {
  readonly fromMs: number
  readonly toMs: number
  readonly state: State
}

/** Puts together, from changes in the order of time, how long something was how. What was before time 0 is left out. */
export class Track<State extends string> {
  readonly spans: Span<State>[] = []
  #state: State | undefined
  #sinceMs = 0

  /** From now on it is so; undefined when it is nothing that is to be told. */
  set(atMs: number, state: State | undefined): void {
    if (state === this.#state) return
    this.end(atMs)
    this.#state = state
    this.#sinceMs = Math.max(atMs, 0)
  }

  /** Nothing is known after `atMs`. */
  end(atMs: number): void {
    const { fromMs, toMs, state } = { fromMs: this.#sinceMs, toMs: Math.max(atMs, 0), state: this.#state }
    this.#state = undefined
    if (state === undefined || toMs <= fromMs) return
    const last = this.spans.at(-1)
    if (last?.state === state && last.toMs === fromMs) this.spans[this.spans.length - 1] = { ...last, toMs }
    else this.spans.push({ fromMs, toMs, state })
  }
}

export function lengthOf({ fromMs, toMs }: Span): number {
  return toMs - fromMs
}
