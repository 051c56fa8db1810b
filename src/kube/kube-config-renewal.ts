import type { Clock } from '../runtime/clock.ts'

/** What an exec plugin or auth-provider gave. */
export interface Grant {
  readonly authorization: string | undefined
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined
  /** Wall time in milliseconds since the epoch; undefined where nobody says. */
  readonly expiresMs: number | undefined
}

/** Asks for a new grant; `held` is the one that it shall replace. Rejects with a NoCredentials error, within a bounded time. */
export type AskForGrant = (held: Grant | undefined) => Promise<Grant>

export interface RenewalOptions {
  readonly ask: AskForGrant
  readonly clock: Clock
  /** How long a grant without a known end is used before it is asked for again, in milliseconds. @default until the server refuses it */
  readonly pollMs?: number | undefined
  /** Called when one was given or refused. */
  readonly onSettled?: (() => void) | undefined
}

/** Two runs are never closer together than this: what keeps failing, or lives for seconds only, must not become a busy loop. */
export const LEAST_MS = 1_000
/** The longest and the shortest time before its end at which a grant is asked for anew, where its life allows it. */
const MOST_AHEAD_MS = 600_000
const LEAST_AHEAD_MS = 60_000
/** How often the next one is asked for, when the last attempt gave none. */
const MOST_BETWEEN_MS = 60_000

/**
 * When to ask for the next grant, in wall time. Pure.
 *
 * A fifth of its life before the end, at least a minute (twice what a plugin may take), but never before half of its life is over. An
 * attempt that fails, or gives a grant that ends no later (plugins keep theirs until shortly before the end), is repeated after a quarter of what is left.
 */
export function planRenewal(given: {
  readonly expiresMs: number
  readonly isNewer: boolean
  readonly nowMs: number
}): number {
  const { expiresMs, isNewer, nowMs } = given
  const leftMs = expiresMs - nowMs
  if (!isNewer) return nowMs + between(LEAST_MS, leftMs / 4, MOST_BETWEEN_MS)
  const aheadMs = Math.min(between(LEAST_AHEAD_MS, leftMs / 5, MOST_AHEAD_MS), leftMs / 2)
  return Math.max(expiresMs - aheadMs, nowMs + LEAST_MS)
}

/**
 * Keeps one grant and renews it in the background before it ends: who asks gets the one that is held, at once. Only who comes before the
 * first was given waits. One attempt is under way at a time.
 */
export class Renewal {
  readonly #options: RenewalOptions
  #grant: Grant | undefined
  #renewAtMs = Number.POSITIVE_INFINITY
  #running: Promise<Grant> | undefined
  #failure: { readonly error: unknown; readonly atMs: number } | undefined

  constructor(options: RenewalOptions) {
    this.#options = options
  }

  /** Why the last attempt gave nothing; undefined if it did. */
  get failure(): unknown {
    return this.#failure?.error
  }

  /** The grant that is held, whether or not it has ended: the server is the judge of that. Rejects only while there is none. */
  async current(): Promise<Grant> {
    const { clock } = this.#options
    if (this.#grant !== undefined) {
      if (clock.wallMs() >= this.#renewAtMs) this.renew().catch(() => {})
      return this.#grant
    }
    if (this.#failure !== undefined && clock.monotonicMs() - this.#failure.atMs < LEAST_MS) throw this.#failure.error
    return this.renew()
  }

  /** Asks for another one now, or waits for the one that is being asked for. Rejects as {@link AskForGrant} does. */
  renew(): Promise<Grant> {
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined
      this.#options.onSettled?.()
    })
    return this.#running
  }

  async #ask(): Promise<Grant> {
    const { ask, clock, pollMs } = this.#options
    const held = this.#grant
    try {
      const given = await ask(held)
      const isNewer = (given.expiresMs ?? 0) > (held?.expiresMs ?? 0)
      this.#grant = given
      this.#failure = undefined
      this.#plan(given.expiresMs, isNewer, pollMs)
      return given
    } catch (error) {
      this.#failure = { error, atMs: clock.monotonicMs() }
      this.#plan(held?.expiresMs, false, pollMs)
      throw error
    }
  }

  #plan(expiresMs: number | undefined, isNewer: boolean, pollMs = Number.POSITIVE_INFINITY): void {
    const nowMs = this.#options.clock.wallMs()
    this.#renewAtMs = expiresMs === undefined ? nowMs + pollMs : planRenewal({ expiresMs, isNewer, nowMs })
  }
}

function between(least: number, value: number, most: number): number {
  return Math.min(Math.max(least, value), most)
}
