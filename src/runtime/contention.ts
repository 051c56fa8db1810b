/** When mending becomes a fight, and how patient one is then. In milliseconds. */
export interface ContentionLimits {
  /** So many corrections within {@link windowMs} are mended damage; what is undone after that is a fight. */
  readonly burst: number
  readonly windowMs: number
  /** Between two corrections in a fight: at least this much … */
  readonly firstMs: number
  /** … and at most this much. */
  readonly maxMs: number
  /** What has been right for this long is fought over no more. */
  readonly quietMs: number
}

/** Ten times at once, then growing waits up to `maxMs`: ten kinds of damage more than a second apart are no fight. */
export function contentionLimits(maxMs: number): ContentionLimits {
  return { burst: 10, windowMs: 10_000, firstMs: 250, maxMs, quietMs: 10_000 }
}

/** Whether somebody undoes what is written here, again and again. Times are on a monotonic clock, in milliseconds. */
export type Contention =
  | {
      readonly phase: 'calm'
      /** When what somebody undid was corrected lately, the latest last. */
      readonly corrections: readonly number[]
    }
  | {
      readonly phase: 'backing-off'
      /** When the first correction was made that counts. */
      readonly sinceMs: number
      readonly writtenMs: number
      readonly corrections: number
      /** Since when it has been right; undefined while it is undone. */
      readonly rightSinceMs: number | undefined
    }

/**
 * - `undone`: a look at the live object finds that somebody has undone what was written.
 * - `corrected`: that was put right.
 * - `written`: something else was written, such as another list of masters.
 * - `right`: it is as it should be.
 */
export type ContentionInput = 'undone' | 'corrected' | 'written' | 'right'

export const calm: Contention = { phase: 'calm', corrections: [] }

/** The fight may have gone on for this many times as long as the next wait. */
const PATIENCE = 8

/**
 * Takes in what was found or done. Pure.
 *
 * A fight begins when something is undone once more after `burst` corrections within `windowMs`, and is over when it has been right
 * for `quietMs`.
 */
export function nextContention(
  state: Contention,
  input: ContentionInput,
  nowMs: number,
  limits: ContentionLimits,
): Contention {
  if (state.phase === 'calm') {
    const corrections = state.corrections.filter((atMs) => atMs > nowMs - limits.windowMs)
    if (input === 'corrected') return { phase: 'calm', corrections: [...corrections, nowMs] }
    const [sinceMs] = corrections
    const writtenMs = corrections.at(-1)
    if (input !== 'undone' || sinceMs === undefined || writtenMs === undefined || corrections.length < limits.burst) {
      return state
    }
    return { phase: 'backing-off', sinceMs, writtenMs, corrections: corrections.length, rightSinceMs: undefined }
  }
  switch (input) {
    case 'undone':
      return { ...state, rightSinceMs: undefined }
    case 'corrected':
      return { ...state, writtenMs: nowMs, corrections: state.corrections + 1, rightSinceMs: nowMs }
    case 'written':
      return { ...state, writtenMs: nowMs, rightSinceMs: nowMs }
    case 'right': {
      const rightSinceMs = state.rightSinceMs ?? nowMs
      return nowMs - rightSinceMs >= limits.quietMs ? calm : { ...state, rightSinceMs }
    }
  }
}

/**
 * When the next correction may be made. Pure.
 *
 * The longer the fight, the longer the wait: an eighth of the time that it has lasted, within the limits. So after the other writer
 * has stopped, what was fought over is right again at most an eighth of the fight's length later.
 */
export function correctionDueMs(state: Contention, limits: ContentionLimits): number {
  if (state.phase === 'calm') return Number.NEGATIVE_INFINITY
  const gapMs = Math.round((state.writtenMs - state.sinceMs) / PATIENCE)
  return state.writtenMs + Math.min(Math.max(gapMs, limits.firstMs), limits.maxMs)
}

/** When to look again though nothing happens: a correction is due, or the fight may be over. Undefined while there is none. Pure. */
export function nextLookMs(state: Contention, limits: ContentionLimits): number | undefined {
  if (state.phase === 'calm') return undefined
  return state.rightSinceMs === undefined ? correctionDueMs(state, limits) : state.rightSinceMs + limits.quietMs
}
