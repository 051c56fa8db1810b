/** What a fault proxy does to a request instead of passing it on and the answer back. */
export type Fault =
  /**
   * Answers in the server's place. etcd's requests get the gRPC status that belongs to it. `failing` are the checks that /readyz names.
   */
  | {
      readonly type: 'answer'
      readonly status: number
      readonly retryAfterSeconds?: number
      readonly failing?: readonly string[]
    }
  /** Never answers; the server does not hear of it. */
  | { readonly type: 'hang' }
  /** Passes the request on so much later. */
  | { readonly type: 'delay'; readonly ms: number }
  /** Passes it on at once, and the answer back so much later. */
  | { readonly type: 'late-answer'; readonly ms: number }
  /** Passes it on, and closes the connection when the answer comes. */
  | { readonly type: 'lost-answer' }
  /** Closes the connection of every open watch at once and then each `everyMs`. */
  | { readonly type: 'cut-watches'; readonly everyMs: number }
  /** Leaves one event out of a watch; bookmarks and what follows go on. */
  | { readonly type: 'lost-event' }

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'call'

/** A request as rules see it: a resource of Kubernetes, a path such as `readyz`, or a method of etcd such as `Txn`, whose verb is `call`. */
export interface FaultyRequest {
  readonly resource: string
  readonly verb: Verb
}

/** To whom a fault happens: every request that fits all that is given. */
export interface FaultRule {
  readonly fault: Fault
  readonly resources?: readonly string[] | undefined
  readonly verbs?: readonly Verb[] | undefined
  /** Only to the first so many. */
  readonly times?: number | undefined
}

/** A fault that goes on until it is ended. */
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
  /** Asks the server; `whenAnswered` decides what becomes of the answer once it begins. */
  forward(whenAnswered: (pass: () => void) => void): void
  /** Closes the client's side. */
  close(): void
}

/** The rules of one proxy; of several that fit, the one that was placed first counts. */
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

  /** Does to a request what the rules say, or passes it on and the answer back. */
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

/** Whether a rule is for such requests, however often it was. Pure. */
export function concerns({ resources, verbs }: FaultRule, { resource, verb }: FaultyRequest): boolean {
  return (resources?.includes(resource) ?? true) && (verbs?.includes(verb) ?? true)
}
