/** Verbs of requests, as in RBAC and in kube-apiserver's audit log. `delete` includes `deletecollection`. */
export const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'] as const
export type Verb = (typeof verbs)[number]

/** A fault of a request on its way from a sidecar to its own API server. Durations are in milliseconds. */
export type RequestFault =
  /** The server answers with this status, and does nothing. */
  | { readonly type: 'status'; readonly status: number; readonly retryAfterMs?: number | undefined }
  /** The request is never answered, and has no effect. */
  | { readonly type: 'hang' }
  /** The request arrives this much later. */
  | { readonly type: 'delay'; readonly byMs: number }
  /** Open watches are cut. With `everyMs`, later watches are cut too, when they reach this age. */
  | { readonly type: 'cut-watches'; readonly everyMs?: number | undefined }
  /** The next event of each watched resource is lost. Bookmarks and all other events arrive. */
  | { readonly type: 'lose-event' }
  /** The credentials are no longer accepted: 401 until they are renewed. */
  | { readonly type: 'expired' }

/** The end of a request that does not reach the server. */
export type RequestEnd = Extract<RequestFault, { readonly type: 'status' | 'hang' }>

/**
 * Selects the requests that have the fault. A missing field matches every request, also a probe of the server's health.
 */
export interface RequestFilter {
  /** `probe`: only probes of the server's health, such as GET /readyz. `api`: all other requests. */
  readonly only?: 'probe' | 'api' | undefined
  /** The plural of a resource, alone or with its group: `leases` or `leases.coordination.k8s.io`. */
  readonly resource?: string | undefined
  readonly verb?: Verb | undefined
}

/** A fault, and the requests that have it. Plain JSON. */
export interface RequestRule extends RequestFilter {
  readonly fault: RequestFault
  /** The fault ends after this many requests, for `status`, `hang` and `delay`. @default no limit */
  readonly requests?: number | undefined
}

/** The properties of a request that a rule can match. */
export interface SentRequest {
  readonly method: string
  /** The absolute path, without the query. */
  readonly path: string
  readonly isWatch: boolean
}

export interface RequestInfo {
  /** Whether the request is a probe of the server's health. A probe has no resource. */
  readonly isProbe: boolean
  readonly resource: string | undefined
  readonly group: string | undefined
  readonly verb: Verb | undefined
}

/** The attributes of an API request. Upstream: `RequestInfoFactory` in apiserver/pkg/endpoints/request. Pure. */
export function requestInfo({ method, path, isWatch }: SentRequest): RequestInfo {
  const [root, ...parts] = path.split('/').filter((part) => part !== '')
  const isProbe = /^(?:readyz|livez|healthz)$/.test(parts.at(-1) ?? root ?? '') && root !== 'api' && root !== 'apis'
  const group = root === 'api' ? '' : root === 'apis' ? parts[0] : undefined
  const below = parts.slice(root === 'api' ? 1 : 2)
  if (group === undefined || below.length === 0) {
    return { isProbe, resource: undefined, group: undefined, verb: undefined }
  }
  // `namespaces/NAME/RESOURCE` is a request for that resource; a shorter path is a request for namespaces.
  const [resource, name] = below[0] === 'namespaces' && below.length > 2 ? below.slice(2) : below
  const reading = isWatch ? 'watch' : name === undefined ? 'list' : 'get'
  return { isProbe, resource, group, verb: method === 'GET' ? reading : writing[method] }
}

const writing: Readonly<Record<string, Verb>> = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }

export function isMet(filter: RequestFilter, request: SentRequest): boolean {
  return matches(filter, requestInfo(request))
}

function matches({ only, resource, verb }: RequestFilter, info: RequestInfo): boolean {
  if (only !== undefined && info.isProbe !== (only === 'probe')) return false
  if (resource !== undefined && resource !== info.resource && resource !== `${info.resource}.${info.group}`)
    return false
  return verb === undefined || verb === info.verb
}

/**
 * The active rules of one server, which decide the faults of each request. Both the simulated link and the proxy of
 * live drills use this class, so that a fault means the same in both kinds of drills.
 */
export class RequestFaults {
  /**
   * The key is the JSON text of the rule, so that no rule is added twice. `lost`: the resources of which the rule has
   * lost an event; `left`: to how many more requests the rule applies.
   */
  readonly #rules = new Map<string, { readonly rule: RequestRule; readonly lost: Set<string>; left: number }>()

  add(rule: RequestRule): void {
    const key = JSON.stringify(rule)
    const left = rule.requests ?? Number.POSITIVE_INFINITY
    if (!this.#rules.has(key)) this.#rules.set(key, { rule, lost: new Set(), left })
  }

  /** Ends a rule. Returns whether it was active. */
  remove(rule: RequestRule): boolean {
    return this.#rules.delete(JSON.stringify(rule))
  }

  get rules(): readonly RequestRule[] {
    return [...this.#rules.values()].map(({ rule }) => rule)
  }

  get areNone(): boolean {
    return this.#rules.size === 0
  }

  /**
   * Applies the rules to a request, which counts toward the limit of each rule that matches. `delayMs`: how much later
   * the request arrives; `end`: undefined if the request reaches the server. `hang` overrides any status.
   */
  applyTo(request: SentRequest): {
    readonly delayMs: number
    readonly end: RequestEnd | undefined
  } {
    const info = requestInfo(request)
    let delayMs = 0
    let end: RequestEnd | undefined
    for (const entry of this.#rules.values()) {
      const { fault } = entry.rule
      if (fault.type === 'cut-watches' || fault.type === 'lose-event') continue
      if (entry.left === 0 || !matches(entry.rule, info)) continue
      entry.left--
      if (fault.type === 'delay') delayMs = Math.max(delayMs, fault.byMs)
      else if (fault.type === 'expired') end ??= { type: 'status', status: 401 }
      else if (end?.type !== 'hang') end = fault
    }
    return { delayMs, end }
  }

  /** The age at which this watch is cut, in milliseconds; undefined without a limit. */
  watchLimitMs(request: SentRequest): number | undefined {
    const limits = [...this.#rules.values()].flatMap(({ rule }) => {
      const { fault } = rule
      return fault.type === 'cut-watches' && fault.everyMs !== undefined && isMet(rule, request) ? [fault.everyMs] : []
    })
    return limits.length === 0 ? undefined : Math.min(...limits)
  }

  /**
   * Decides whether this event of this watch is lost. Each `lose-event` rule loses one event of each resource that it
   * matches. Bookmarks are never lost.
   */
  loses(request: SentRequest, event: unknown): boolean {
    if (this.areNone || (event as { readonly type?: unknown } | null)?.type === 'BOOKMARK') return false
    const info = requestInfo(request)
    const { resource = '' } = info
    for (const { rule, lost } of this.#rules.values()) {
      if (rule.fault.type !== 'lose-event' || lost.has(resource) || !matches(rule, info)) continue
      lost.add(resource)
      return true
    }
    return false
  }
}

/** How many requests in a row may be lost without a consequence. */
const BEARABLE_REQUESTS = 2
const probe = requestInfo({ method: 'GET', path: '/readyz', isWatch: false })
/** The requests with which a master renews a Lease object. */
const renewals = ['GET', 'POST', 'PUT'].map((method) =>
  requestInfo({
    method,
    path: '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/any',
    isWatch: false,
  }),
)

/**
 * The effect of rules on a sidecar. `no`: no effect; `rest`: some requests fail, but the sidecar renews its lease;
 * `lease`: renewals may fail until the lease ends. `usesLeaseObject`: whether the lease is a Lease object. A probe that
 * is answered with any status prevents no renewal. Pure.
 */
export function impairmentOf(rules: readonly RequestRule[], usesLeaseObject: boolean): 'no' | 'rest' | 'lease' {
  if (rules.length === 0) return 'no'
  const preventsRenewal = (rule: RequestRule): boolean =>
    rule.fault.type !== 'cut-watches' &&
    rule.fault.type !== 'lose-event' &&
    !isBearable(rule) &&
    renewals.some((request) => matches(rule, request))
  return silencesProbe(rules) || (usesLeaseObject && rules.some(preventsRenewal)) ? 'lease' : 'rest'
}

/**
 * Whether rules may leave more than {@link BEARABLE_REQUESTS} probes unanswered. Every delay counts, even the shortest.
 * Pure.
 */
export function silencesProbe(rules: readonly RequestRule[]): boolean {
  return rules.some(
    (rule) => (rule.fault.type === 'hang' || rule.fault.type === 'delay') && !isBearable(rule) && matches(rule, probe),
  )
}

/**
 * Whether rules answer more than {@link BEARABLE_REQUESTS} probes with 5xx or 429. The invariants then do not count the
 * server as ready. Pure.
 */
export function answersUnready(rules: readonly RequestRule[]): boolean {
  return rules.some((rule) => {
    const { fault } = rule
    const isUnready = fault.type === 'status' && (fault.status >= 500 || fault.status === 429)
    return isUnready && !isBearable(rule) && matches(rule, probe)
  })
}

function isBearable({ requests = Number.POSITIVE_INFINITY }: RequestRule): boolean {
  return requests <= BEARABLE_REQUESTS
}
