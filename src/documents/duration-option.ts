import type * as z from 'zod/mini'
import { formatDuration, parseDuration } from './duration.ts'
import { parsedText } from './option.ts'

/** No setting of ours makes sense for longer; what is longer is a slip of the unit. */
const longestMs = 24 * 3_600_000

/**
 * A schema for a duration in Go's form (`10s`, `1m30s`), parsed to milliseconds: at least `minMs`, at most `maxMs` or 24h, in whole seconds where
 * `wholeSeconds` says so (what is stored in seconds must not be rounded).
 */
export function duration(limits: {
  readonly minMs: number
  readonly maxMs?: number
  readonly wholeSeconds?: boolean
}): z.ZodMiniCodec<z.ZodMiniString, z.ZodMiniCustom<number, number>> {
  return parsedText((text) => {
    const durationMs = parseDuration(text)
    const { minMs, maxMs = longestMs, wholeSeconds = false } = limits
    if (durationMs < minMs)
      throw new RangeError(`must be at least ${formatDuration(minMs)}, not ${JSON.stringify(text)}`)
    if (durationMs > maxMs)
      throw new RangeError(`must be at most ${formatDuration(maxMs)}, not ${JSON.stringify(text)}`)
    if (wholeSeconds && durationMs % 1000 !== 0)
      throw new RangeError(`must be whole seconds, not ${JSON.stringify(text)}`)
    return durationMs
  }, formatDuration)
}
