import type { Random } from '../runtime/random.ts'
import type { ApiResponse } from './transport.ts'

/** When a refused request is sent again. */
export interface RetryPolicy {
  /** Requests in all, the first included. @default 5 */
  readonly attempts: number
  /** The sum of all waits, in milliseconds; a longer one is the caller's business. @default 30000 */
  readonly maxWaitMs: number
  /** The least wait, in milliseconds, for servers that say 0. @default 100 */
  readonly minWaitMs: number
  /** Waits are lengthened by up to this share, so that refused clients do not come back as one. @default 0.1 */
  readonly jitter: number
}

export const defaultRetryPolicy: RetryPolicy = { attempts: 5, maxWaitMs: 30_000, minWaitMs: 100, jitter: 0.1 }

/**
 * How long to wait before the same request is sent again, in milliseconds; undefined when the answer stands.
 * Only a 429 or 503 with a Retry-After header is worth it: those, and no others, say that nothing was done.
 */
export function planRetry(
  response: ApiResponse,
  made: { readonly attempts: number; readonly waitedMs: number },
  policy: RetryPolicy,
  random: Random,
): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined
  const askedMs = retryAfterMs(response.headers)
  if (askedMs === undefined || made.attempts >= policy.attempts) return undefined
  const waitMs = Math.max(askedMs, policy.minWaitMs) * (1 + policy.jitter * random.next())
  return made.waitedMs + waitMs > policy.maxWaitMs ? undefined : waitMs
}

/** The Retry-After header in milliseconds. Dates are not understood: no API server sends them. */
export function retryAfterMs(headers: Readonly<Record<string, string>>): number | undefined {
  const text = headers['retry-after']?.trim()
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) * 1000 : undefined
}
