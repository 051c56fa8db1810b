/** What a fault proxy does instead of passing a request on and its answer back. */
export type Fault =
  /**
   * Answers in place of the server. A request to etcd gets the gRPC status that corresponds to `status`. `failing`: the
   * checks that /readyz names.
   */
  | {
      readonly type: 'answer'
      readonly status: number
      readonly retryAfterSeconds?: number
      readonly failing?: readonly string[]
    }
  /** Never answers, and does not pass the request on. */
  | { readonly type: 'hang' }
  /** Passes the request on after this delay. */
  | { readonly type: 'delay'; readonly ms: number }
  /** Passes the request on at once, and the answer back after this delay. */
  | { readonly type: 'late-answer'; readonly ms: number }
  /** Passes the request on, and closes the connection when the answer comes. */
  | { readonly type: 'lost-answer' }
  /** Closes the connections of all open watches at once, and again every `everyMs`. */
  | { readonly type: 'cut-watches'; readonly everyMs: number }
  /** Omits one event of a watch. Bookmarks and later events pass. */
  | { readonly type: 'lost-event' }

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'call'

/**
 * A request as rules see it: a resource of Kubernetes, a path such as `readyz`, or a method of etcd such as `Txn`,
 * whose verb is `call`.
 */
export interface FaultyRequest {
  readonly resource: string
  readonly verb: Verb
}

/** A fault, and the requests to which it happens: those that match all given fields. */
export interface FaultRule {
  readonly fault: Fault
  readonly resources?: readonly string[] | undefined
  readonly verbs?: readonly Verb[] | undefined
  /** The fault happens at most this often. */
  readonly times?: number | undefined
}

/** A fault that continues until it is ended. */
export interface PlacedFault {
  /** How often it happened. */
  readonly hits: number
  end(): void
}

interface Placed extends PlacedFault {
  readonly rule: FaultRule
  hits: number
}

/** How a proxy deals with one request. */
export interface Passage {
  answer(fault: Extract<Fault, { type: 'answer' }>): void
  /** Passes the request to the server. When the answer begins, `whenAnswered` decides what happens to it. */
  forward(whenAnswered: (pass: () => void) => void): void
  /** Closes the client's side. */
  close(): void
}

/** The rules of one proxy. If several match a request, the one that was placed first applies. */
export class FaultRules {
  readonly #placed = new Set<Placed>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #cutWatches: (rule: FaultRule) => void

  /** `cutWatches` closes all open watches that a rule concerns. */
  constructor(cutWatches: (rule: FaultRule) => void) {
    this.#cutWatches = cutWatches
  }

  place(rule: FaultRule): PlacedFault {
    let timer: NodeJS.Timeout | undefined
    const placed: Placed = {
      rule,
      hits: 0,
      end: () => {
        this.#placed.delete(placed)
        clearInterval(timer)
      },
    }
    this.#placed.add(placed)
    if (rule.fault.type === 'cut-watches') {
      const cut = (): void => {
        placed.hits++
        this.#cutWatches(rule)
        if (placed.hits === rule.times) clearInterval(timer)
      }
      timer = setInterval(cut, rule.fault.everyMs)
      cut()
    }
    return placed
  }

  /** Applies the rules to a request, or passes it on and its answer back. */
  treat(request: FaultyRequest, { answer, forward, close }: Passage): void {
    const fault = this.#next(request, (type) => type !== 'cut-watches' && type !== 'lost-event')
    if (fault?.type === 'answer') answer(fault)
    else if (fault?.type === 'delay') this.#after(fault.ms, () => forward((pass) => pass()))
    else if (fault?.type === 'late-answer') forward((pass) => this.#after(fault.ms, pass))
    else if (fault?.type === 'lost-answer') forward(close)
    else if (fault?.type !== 'hang') forward((pass) => pass())
  }

  /** Whether the next event of a watch is lost. */
  losesEvent(request: FaultyRequest): boolean {
    return this.#next(request, (type) => type === 'lost-event') !== undefined
  }

  clear(): void {
    for (const placed of this.#placed) placed.end()
    for (const timer of this.#timers) clearTimeout(timer)
  }

  #next(request: FaultyRequest, isMeant: (type: Fault['type']) => boolean): Fault | undefined {
    for (const placed of this.#placed) {
      const { fault, times = Number.POSITIVE_INFINITY } = placed.rule
      if (!isMeant(fault.type) || placed.hits >= times || !concerns(placed.rule, request)) continue
      placed.hits++
      return fault
    }
    return undefined
  }

  #after(ms: number, then: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      then()
    }, ms)
    this.#timers.add(timer)
  }
}

/** Whether a rule matches such requests, regardless of how often it was applied. Pure. */
export function concerns({ resources, verbs }: FaultRule, { resource, verb }: FaultyRequest): boolean {
  return (resources?.includes(resource) ?? true) && (verbs?.includes(verb) ?? true)
}
