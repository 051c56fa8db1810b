import {
  configMaps,
  coreEvents,
  endpointSlices,
  endpoints,
  events,
  ipAddresses,
  leases,
  namespaces,
  nodes,
  pods,
  qualifiedPlural,
  serviceCidrs,
  services,
} from '../kube/resources.ts'
import { faultTimes } from '../verify/observation.ts'

/** Verbs of requests, as in RBAC and in kube-apiserver's audit log. `delete` includes `deletecollection`. */
export const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'] as const
export type Verb = (typeof verbs)[number]

/** The resources that a sidecar may request, each also with its group. A rule for another one would hit nothing. */
export const requestedResources: readonly string[] = [
  ...new Set(
    [
      ...[leases, endpoints, endpointSlices, services, namespaces, serviceCidrs, ipAddresses, configMaps, events],
      ...[coreEvents, pods, nodes],
    ].flatMap((resource) => [resource.plural, qualifiedPlural(resource)]),
  ),
]

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
  /** The key is the JSON text of the rule, so that no rule is added twice. */
  readonly #rules = new Map<string, ActiveRule>()
  /** How many requests, watches and events each rule has hit so far, by the same keys; of removed rules too. */
  readonly #hits = new Map<string, number>()
  /** As {@link disturbances}. */
  #disturbances = 0

  add(rule: RequestRule): void {
    const key = JSON.stringify(rule)
    const left = rule.requests ?? Number.POSITIVE_INFINITY
    if (!this.#rules.has(key)) this.#rules.set(key, { key, rule, lost: new Set(), left })
  }

  /** Ends a rule. Returns whether it was active. */
  remove(rule: RequestRule): boolean {
    return this.#rules.delete(JSON.stringify(rule))
  }

  /** The rules that may still hit a request, a watch or an event. */
  get rules(): readonly RequestRule[] {
    return [...this.#rules.values()].filter((active) => !isSpent(active)).map(({ rule }) => rule)
  }

  get areNone(): boolean {
    return this.#rules.size === 0
  }

  /** How many requests, watches and events this rule has hit so far, all its periods together. */
  hitsOf(rule: RequestRule): number {
    return this.#hits.get(JSON.stringify(rule)) ?? 0
  }

  /** How many requests, watches and events were hit so far by rules that {@link impairmentOf} may regard. */
  get disturbances(): number {
    return this.#disturbances
  }

  /** Records that this rule has cut a watch. */
  countCut(rule: RequestRule): void {
    this.#count(JSON.stringify(rule), rule)
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
      this.#count(entry.key, entry.rule)
      if (fault.type === 'delay') delayMs = Math.max(delayMs, fault.byMs)
      else if (fault.type === 'expired') end ??= { type: 'status', status: 401 }
      else if (end?.type !== 'hang') end = fault
    }
    return { delayMs, end }
  }

  /**
   * The age at which this new watch is to be cut, in milliseconds; undefined without a limit. The watch counts as hit.
   */
  watchLimitMs(request: SentRequest): number | undefined {
    const limits = [...this.#rules.values()].flatMap(({ key, rule }) => {
      const { fault } = rule
      if (fault.type !== 'cut-watches' || fault.everyMs === undefined || !isMet(rule, request)) return []
      this.#count(key, rule)
      return [fault.everyMs]
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
    for (const { key, rule, lost } of this.#rules.values()) {
      if (rule.fault.type !== 'lose-event' || lost.has(resource) || !matches(rule, info)) continue
      lost.add(resource)
      this.#count(key, rule)
      return true
    }
    return false
  }

  #count(key: string, rule: RequestRule): void {
    this.#hits.set(key, (this.#hits.get(key) ?? 0) + 1)
    if (!isSmallDelay(rule) && isDecisive(rule, true)) this.#disturbances++
  }
}

interface ActiveRule {
  readonly key: string
  readonly rule: RequestRule
  /** The resources of which the rule has lost an event. */
  readonly lost: Set<string>
  /** To how many more requests the rule applies. */
  left: number
}

/**
 * Whether a rule can hit nothing more: it has hit all its requests, has cut the watches that were open, or has lost the
 * event of its only resource. A client may still obey a longer Retry-After than {@link faultTimes} allows for, so a
 * rule with one stays.
 */
function isSpent({ rule: { fault, resource }, lost, left }: ActiveRule): boolean {
  switch (fault.type) {
    case 'cut-watches':
      return fault.everyMs === undefined
    case 'lose-event':
      return resource !== undefined && lost.size > 0
    case 'status':
      return left === 0 && (fault.retryAfterMs ?? 0) <= faultTimes.requestMs
    default:
      return left === 0
  }
}

/** How many requests in a row may be lost without a consequence. */
const BEARABLE_REQUESTS = 2
/**
 * The longest delay of single requests, in milliseconds, that counts as a slow connection and not as a fault: the
 * bounds then allow for it, and every probe and renewal is answered in time.
 */
const SMALL_DELAY_MS = 50
const probe = requestInfo({ method: 'GET', path: '/readyz', isWatch: false })
/** The requests with which a master renews a Lease object. */
const renewals = ['GET', 'POST', 'PUT'].map((method) =>
  requestInfo({
    method,
    path: '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/any',
    isWatch: false,
  }),
)

/** The resources on whose requests the list may depend. `leases` only for a master whose lease is a Lease object. */
const decisive = [namespaces, services, endpoints, endpointSlices, serviceCidrs, leases]

/**
 * The effect of rules on a sidecar. `no`: no effect; `rest`: some requests fail, but the sidecar renews its lease;
 * `lease`: renewals may fail until the lease ends. `usesLeaseObject`: whether the lease is a Lease object. A probe that
 * is answered with any status prevents no renewal. A small delay has no effect but {@link smallDelayMs}. Pure.
 */
export function impairmentOf(rules: readonly RequestRule[], usesLeaseObject: boolean): 'no' | 'rest' | 'lease' {
  const effective = rules.filter((rule) => !isSmallDelay(rule) && isDecisive(rule, usesLeaseObject))
  if (effective.length === 0) return 'no'
  const preventsRenewal = (rule: RequestRule): boolean =>
    rule.fault.type !== 'cut-watches' &&
    rule.fault.type !== 'lose-event' &&
    !isBearable(rule) &&
    renewals.some((request) => matches(rule, request))
  return silencesProbe(effective) || (usesLeaseObject && effective.some(preventsRenewal)) ? 'lease' : 'rest'
}

/** How much later a request arrives at most because of the small delays among the rules, in milliseconds. Pure. */
export function smallDelayMs(rules: readonly RequestRule[]): number {
  return Math.max(0, ...rules.map((rule) => (rule.fault.type === 'delay' && isSmallDelay(rule) ? rule.fault.byMs : 0)))
}

function isSmallDelay({ fault }: RequestRule): boolean {
  return fault.type === 'delay' && fault.byMs <= SMALL_DELAY_MS
}

/** Whether a rule may match a request on which the list depends. */
function isDecisive({ resource }: RequestRule, usesLeaseObject: boolean): boolean {
  if (resource === undefined) return true
  return decisive
    .filter((one) => usesLeaseObject || one !== leases)
    .some((one) => resource === one.plural || resource === qualifiedPlural(one))
}

/** Whether rules may leave more than {@link BEARABLE_REQUESTS} probes unanswered, or answer them late. Pure. */
export function silencesProbe(rules: readonly RequestRule[]): boolean {
  return rules.some(
    (rule) =>
      (rule.fault.type === 'hang' || rule.fault.type === 'delay') &&
      !isSmallDelay(rule) &&
      !isBearable(rule) &&
      matches(rule, probe),
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
