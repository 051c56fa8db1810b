import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/message-of.ts'
import { TokenBucket } from '../runtime/token-bucket.ts'
import type { HealthAccess, HealthCaller, HealthVerdict } from '../telemetry/health-access.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KubeApi } from './api.ts'
import { subjectAccessReviews, tokenReviews } from './resources.ts'
import { ReviewMemory, TooManyReviews } from './review-memory.ts'

export interface DelegatedAccessOptions {
  /** Of the API server that knows the tokens and what their users may do. */
  readonly api: KubeApi
  /** Whether bearer tokens are taken. Client certificates are, whenever a connection has one. */
  readonly tokens: boolean
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * How long an answer of the API server counts, in milliseconds: a kubelet's times. With the ten seconds of other components a client that asks all the
 * time would cost twelve reviews a minute; with these, one whom nothing changes for costs seven in ten minutes.
 */
export const reviewTimes = { tokenMs: 120_000, allowedMs: 300_000, deniedMs: 30_000 } as const

/** Who somebody is, as a SubjectAccessReview wants to be told. */
interface User {
  readonly user: string
  readonly uid?: string
  readonly groups: readonly string[]
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

/**
 * Asks the API server who a caller is (TokenReview; a client certificate says so itself: its common name is the user, its organizations are the
 * groups) and whether it may do what it asks (SubjectAccessReview), as the delegated authentication and authorization of Kubernetes' own components do.
 * Nobody is anonymous. While the API server cannot be asked, callers whose answers are not remembered are refused: with 401 where it would have to
 * say who they are, with 500 where it would have to say what they may do. That is logged when it begins and when it ends.
 */
export class DelegatedAccess implements HealthAccess {
  readonly #options: DelegatedAccessOptions
  readonly #users: ReviewMemory<User | undefined>
  readonly #permissions: ReviewMemory<boolean>
  #isAway = false

  constructor(options: DelegatedAccessOptions) {
    this.#options = options
    const { clock } = options
    // What nobody has asked before: five a second in the long run.
    const limit = new TokenBucket({ clock, qps: 5, burst: 20 })
    this.#users = new ReviewMemory({
      clock,
      limit,
      lifeMs: () => reviewTimes.tokenMs,
      isGood: (user) => user !== undefined,
    })
    this.#permissions = new ReviewMemory({
      clock,
      limit,
      lifeMs: (allowed) => (allowed ? reviewTimes.allowedMs : reviewTimes.deniedMs),
      isGood: (allowed) => allowed,
    })
  }

  async judge(caller: HealthCaller, request: { readonly verb: string; readonly path: string }): Promise<HealthVerdict> {
    let user: User | undefined
    try {
      user = caller.certificate ?? (await this.#userOf(caller.bearerToken))
    } catch (error) {
      return error instanceof TooManyReviews ? 429 : 401
    }
    if (user === undefined) return 401
    try {
      return (await this.#isAllowed(user, request)) ? 200 : 403
    } catch (error) {
      return error instanceof TooManyReviews ? 429 : 500
    }
  }

  async #userOf(token: string | undefined): Promise<User | undefined> {
    if (token === undefined || !this.#options.tokens) return undefined
    return this.#users.of(token, () =>
      this.#ask(async () => {
        const { status } = await this.#options.api.create(tokenReviews, {
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

  #isAllowed(user: User, { verb, path }: { readonly verb: string; readonly path: string }): Promise<boolean> {
    return this.#permissions.of(JSON.stringify([user, verb, path]), () =>
      this.#ask(async () => {
        const { status } = await this.#options.api.create(subjectAccessReviews, {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: { ...user, nonResourceAttributes: { verb, path } },
        })
        return status?.allowed === true && status.denied !== true
      }),
    )
  }

  async #ask<Answer>(review: () => Promise<Answer>): Promise<Answer> {
    const { logger } = this.#options
    try {
      const answer = await review()
      if (this.#isAway) logger.info({}, 'the API server says again who may see the metrics')
      this.#isAway = false
      return answer
    } catch (error) {
      if (!this.#isAway) {
        logger.warn(
          { error: messageOf(error) },
          'cannot ask the API server who may see the metrics: only those that it has just allowed see them',
        )
      }
      this.#isAway = true
      throw error
    }
  }
}
