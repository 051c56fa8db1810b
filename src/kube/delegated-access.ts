import { createHash } from 'node:crypto'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import { putLast } from '../runtime/memo.ts'
import { TokenBucket } from '../runtime/token-bucket.ts'
import type { HealthAccess } from '../telemetry/health.ts'
import type { Logger } from '../telemetry/logger.ts'
import { noOutages, type Outages } from '../telemetry/outages.ts'
import type { KubeApi } from './api.ts'
import { subjectAccessReviews, tokenReviews } from './resources.ts'

interface DelegatedAccessOptions {
  /** A client of the API server that validates the tokens and knows the rights of their users. */
  readonly api: KubeApi
  /** Whether bearer tokens are accepted. Client certificates always are. */
  readonly tokens: boolean
  readonly clock: Clock
  readonly logger: Logger
  /** The outages of the API server. @default no outage is known */
  readonly outages?: Outages | undefined
}

/**
 * How long an answer of the API server is cached, in milliseconds, as in a kubelet. With the ten seconds of other
 * components one busy client would cause twelve reviews a minute instead of seven in ten minutes.
 */
const reviewTimes = { tokenMs: 120_000, allowedMs: 300_000, deniedMs: 30_000 } as const

/** A user, in the fields of a SubjectAccessReview. */
interface User {
  readonly user: string
  readonly uid?: string
  readonly groups: readonly string[]
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

/**
 * Authenticates callers and authorizes their requests like Kubernetes' own components, by delegation to the API server.
 * A TokenReview validates a bearer token. A client certificate gives the user (its common name) and the groups (its
 * organizations). A SubjectAccessReview authorizes the request. Anonymous callers are refused. While reviews fail,
 * callers without a cached answer are refused: with 401 if the TokenReview failed, with 500 if the SubjectAccessReview
 * failed. The beginning and the end of that state are logged. A caller that causes too many reviews is refused with 429
 * where it has no cached answer; other callers are not, unless all together cause too many.
 */
export function delegatedAccess(options: DelegatedAccessOptions): HealthAccess {
  const { api, tokens, clock, logger, outages = noOutages } = options
  const away = outages.symptom()
  const users = new ReviewMemory<User | undefined>({
    clock,
    limit: new ReviewLimit(clock),
    lifeMs: () => reviewTimes.tokenMs,
    isGood: (user) => user !== undefined,
  })
  const permissions = new ReviewMemory<boolean>({
    clock,
    limit: new ReviewLimit(clock),
    lifeMs: (allowed) => (allowed ? reviewTimes.allowedMs : reviewTimes.deniedMs),
    isGood: (allowed) => allowed,
  })

  const ask = async <Answer>(review: () => Promise<Answer>): Promise<Answer> => {
    try {
      const answer = await review()
      away.absent(logger, {}, 'the API server authorizes metrics requests again')
      return answer
    } catch (error) {
      away.present(
        logger,
        { error: messageOf(error) },
        'cannot authorize metrics requests with the API server; only clients with a cached permission are served',
      )
      throw error
    }
  }

  const userOf = async (token: string | undefined, address: string): Promise<User | undefined> => {
    if (token === undefined || !tokens) return undefined
    return users.of(token, address, () =>
      ask(async () => {
        const { status } = await api.create(tokenReviews, {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenReview',
          spec: { token },
        })
        const { username, uid, groups = [], extra } = status?.user ?? {}
        if (status?.authenticated !== true || username === undefined || username === '') return undefined
        return { user: username, groups, ...(uid !== undefined && { uid }), ...(extra !== undefined && { extra }) }
      }),
    )
  }

  const isAllowed = (user: User, verb: string, path: string): Promise<boolean> =>
    // The other fields of a user may differ from token to token.
    permissions.of(JSON.stringify([user, verb, path]), user.user, () =>
      ask(async () => {
        const { status } = await api.create(subjectAccessReviews, {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: { ...user, nonResourceAttributes: { verb, path } },
        })
        return status?.allowed === true && status.denied !== true
      }),
    )

  return {
    async authorize({ address, certificate, bearerToken }, { verb, path }) {
      let user: User | undefined
      try {
        user = certificate ?? (await userOf(bearerToken, address))
      } catch (error) {
        return error instanceof TooManyReviews ? 429 : 401
      }
      if (user === undefined) return 401
      try {
        return (await isAllowed(user, verb, path)) ? 200 : 403
      } catch (error) {
        return error instanceof TooManyReviews ? 429 : 500
      }
    },
  }
}

/** The rate limit allows no further review. */
class TooManyReviews extends Error {
  override readonly name = 'TooManyReviews'
}

/** What one caller may cause: `burst` reviews at once, `qps` a second. */
const ONE_CALLER = { qps: 5, burst: 20 }
/** What all callers together may cause. */
const ALL_CALLERS = { qps: 20, burst: 80 }
const MOST_CALLERS = 1000

/**
 * The rate limit on reviews of one kind: for each caller (a user, or the address of an unknown one), so that none uses
 * up the share of others, and for all callers together.
 */
class ReviewLimit {
  readonly #clock: Clock
  readonly #all: TokenBucket
  /** The bucket of a caller that was absent for longest is forgotten first. */
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#all = new TokenBucket({ clock, ...ALL_CALLERS })
  }

  tryTake(caller: string): boolean {
    const bucket = this.#buckets.get(caller) ?? new TokenBucket({ clock: this.#clock, ...ONE_CALLER })
    putLast(this.#buckets, caller, bucket, MOST_CALLERS)
    return bucket.tryTake() && this.#all.tryTake()
  }
}

interface ReviewMemoryOptions<Answer> {
  readonly clock: Clock
  /**
   * The rate limit on reviews of questions without an earlier good answer. It limits callers that guess, but not known
   * callers.
   */
  readonly limit: ReviewLimit
  readonly lifeMs: (answer: Answer) => number
  readonly isGood: (answer: Answer) => boolean
}

/** How many good answers, and how many bad ones, are cached at most; the oldest is removed first. */
const MOST_ANSWERS = 1000

interface KnownAnswer<Answer> {
  readonly answer: Answer
  readonly untilMs: number
}

/**
 * Caches the answers to reviews, and makes one review for all callers with the same question at the same time. Failures
 * are not cached. Only the hash of a question is stored, because the question may contain a secret.
 */
class ReviewMemory<Answer> {
  readonly #options: ReviewMemoryOptions<Answer>
  readonly #good = new Map<string, KnownAnswer<Answer>>()
  /** A map of its own, so that callers that guess cannot displace the good answers. */
  readonly #bad = new Map<string, KnownAnswer<Answer>>()
  readonly #asked = new Map<string, Promise<Answer>>()

  constructor(options: ReviewMemoryOptions<Answer>) {
    this.#options = options
  }

  /**
   * The cached answer, or else that of `ask`, which is limited for this caller. Rejects with TooManyReviews, or with
   * the error of `ask`.
   */
  async of(question: string, caller: string, ask: () => Promise<Answer>): Promise<Answer> {
    const { clock, limit, lifeMs, isGood } = this.#options
    const key = createHash('sha256').update(question).digest('base64')
    const good = this.#good.get(key)
    const known = good ?? this.#bad.get(key)
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.answer
    const asked = this.#asked.get(key)
    if (asked !== undefined) return asked
    if (good === undefined && !limit.tryTake(caller)) throw new TooManyReviews('too many reviews')
    const answer = ask()
    this.#asked.set(key, answer)
    try {
      const given = await answer
      for (const answers of [this.#good, this.#bad]) answers.delete(key)
      const answers = isGood(given) ? this.#good : this.#bad
      putLast(answers, key, { answer: given, untilMs: clock.monotonicMs() + lifeMs(given) }, MOST_ANSWERS)
      return given
    } finally {
      this.#asked.delete(key)
    }
  }
}
