import { KubeError } from '../kube/errors.ts'
import type { ApiRequest, ApiResponse, Transport } from '../kube/transport.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import { answerOf, Refusal } from './refusal.ts'

/** Controls the faults between the users of a transport and its server. */
export interface Faults {
  /**
   * Appends a rule. Matching rules apply in the order in which they were added, and their delays add up. After the
   * first other fault of a request, a stream or an event, later rules neither apply to it nor count it. Returns a
   * function that removes the rule.
   * @throws TypeError if the rule is malformed
   */
  add(rule: FaultRule): () => void
  /** Removes all rules. Does not end a partition. An open stream retains the faults with which it was opened. */
  clear(): void
  /** Holds back all messages in both directions from now on, until {@link heal}. No message is refused. */
  partition(): void
  /** Ends the partition. The messages that were held back continue, except those of aborted requests. */
  heal(): void
  readonly partitioned: boolean
  /** Breaks all open streams. Their readers get a KubeError `Unreachable`. */
  resetStreams(): void
}

/**
 * A transport with faults, which depend only on the rules, the clock and the random numbers. Unlike an in-process
 * transport, it enforces the `timeoutMs` of a request, up to the answer or the start of a stream.
 */
export function faultyTransport(
  inner: Transport,
  options: { readonly clock: Clock; readonly random: Random },
): Transport & { readonly faults: Faults } {
  const transport = new FaultyTransport(inner, options.clock, options.random)
  return { faults: transport, send: (request, signal) => transport.send(request, signal), close: () => inner.close() }
}

class FaultyTransport implements Faults {
  readonly #inner: Transport
  readonly #clock: Clock
  readonly #random: Random
  readonly #rules = new Set<{ readonly rule: FaultRule; left: number }>()
  readonly #streams = new Set<AbortController>()
  /** Resolves when the partition ends; undefined without a partition. */
  #healed: PromiseWithResolvers<void> | undefined

  constructor(inner: Transport, clock: Clock, random: Random) {
    this.#inner = inner
    this.#clock = clock
    this.#random = random
  }

  add(rule: FaultRule): () => void {
    checkRule(rule)
    const added = { rule, left: rule.times ?? Number.POSITIVE_INFINITY }
    this.#rules.add(added)
    return () => {
      this.#rules.delete(added)
    }
  }

  clear(): void {
    this.#rules.clear()
  }

  partition(): void {
    this.#healed ??= Promise.withResolvers()
  }

  heal(): void {
    this.#healed?.resolve()
    this.#healed = undefined
  }

  get partitioned(): boolean {
    return this.#healed !== undefined
  }

  resetStreams(): void {
    for (const stream of this.#streams) stream.abort(new KubeError('Unreachable', 'the connection was reset'))
  }

  async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
    signal.throwIfAborted()
    const faults = this.#drawFaults(request, 'request')
    const { controller, unlink } = linkedController(signal)
    const cancelTimeout = this.#timeout(request, controller)
    try {
      const response = await this.#exchange(request, faults, controller.signal)
      if (!('stream' in response)) {
        unlink()
        return response
      }
      this.#streams.add(controller)
      const breaksAtOnce = faults.some((fault) => fault.type === 'garbage')
      const all = breaksAtOnce ? faults : [...faults, ...this.#drawFaults(request, 'stream')]
      return { ...response, stream: this.#relay(response.stream, request, all, { controller, unlink, signal }) }
    } catch (error) {
      unlink()
      throw error
    } finally {
      cancelTimeout()
    }
  }

  /**
   * Draws the faults of a request, of its stream, or of one event in the stream: delays, in the order of their rules,
   * and at most one other fault at the end. Each drawn fault counts towards `times`.
   */
  #drawFaults(request: ApiRequest, subject: Subject): readonly Fault[] {
    const faults: Fault[] = []
    for (const entry of this.#rules) {
      const { fault, probability } = entry.rule
      if (subjectOf(fault) !== subject || !isFor(entry.rule, request)) continue
      if (probability !== undefined && this.#random.next() >= probability) continue
      if (--entry.left <= 0) this.#rules.delete(entry)
      faults.push(fault)
      if (fault.type !== 'delay') break
    }
    return faults
  }

  #timeout({ timeoutMs }: ApiRequest, controller: AbortController): () => void {
    if (timeoutMs === undefined) return () => {}
    const onTimeout = (): void => controller.abort(new KubeError('Timeout', `no answer within ${timeoutMs} ms`))
    return this.#clock.schedule(timeoutMs, onTimeout)
  }

  async #exchange(request: ApiRequest, faults: readonly Fault[], signal: AbortSignal): Promise<ApiResponse> {
    await this.#passage(signal)
    for (const fault of faults) {
      if (fault.type === 'delay') await sleep(this.#clock, fault.ms, signal)
      else if (fault.type === 'refuse') throw new KubeError('Unreachable', 'the connection was refused')
      else if (fault.type === 'drop' && fault.lost === 'request') await silence(signal)
      else if (fault.type === 'status') return refusedWith(fault.status, fault.retryAfterSeconds)
    }
    const response = await this.#inner.send(request, signal)
    await this.#passage(signal)
    if (faults.some((fault) => fault.type === 'drop')) await silence(signal)
    const garbled = faults.some((fault) => fault.type === 'garbage')
    return garbled && !('stream' in response) ? torn(response) : response
  }

  async *#relay(
    inner: AsyncIterable<unknown>,
    request: ApiRequest,
    faults: readonly Fault[],
    line: { readonly controller: AbortController; readonly unlink: () => void; readonly signal: AbortSignal },
  ): AsyncGenerator<unknown, void, undefined> {
    const { signal } = line.controller
    const events = inner[Symbol.asyncIterator]()
    try {
      for (let index = 0; ; index++) {
        const breakage = faults.find((fault) => 'afterEvents' in fault && fault.afterEvents <= index)
        if (breakage?.type === 'end') return
        if (breakage?.type === 'cut') throw new KubeError('Unreachable', 'the connection was reset')
        if (breakage?.type === 'stall') await silence(signal)
        const event = await abortable(events.next(), signal)
        for (const fault of faults) if (fault.type === 'delay') await sleep(this.#clock, fault.ms, signal)
        await this.#passage(signal)
        if (event.done === true) return
        if (faults.some((fault) => fault.type === 'garbage')) {
          throw new KubeError('BadResponse', 'an event of the stream cannot be read')
        }
        const { type } = event.value as { readonly type?: string }
        if (type !== 'BOOKMARK' && this.#drawFaults(request, 'event').length > 0) continue
        yield event.value
      }
    } catch (error) {
      // A watch that its caller has aborted ends without an error.
      if (!line.signal.aborted) throw error
    } finally {
      this.#streams.delete(line.controller)
      line.unlink()
      await events.return?.()
    }
  }

  async #passage(signal: AbortSignal): Promise<void> {
    while (this.#healed !== undefined) await abortable(this.#healed.promise, signal)
  }
}

/** Never resolves; rejects with the signal's reason. */
function silence(signal: AbortSignal): Promise<never> {
  return abortable(new Promise<never>(() => {}), signal)
}

type Fault =
  /** The request arrives `ms` later. Each event of a stream is delayed by `ms`, one event after the other. */
  | { readonly type: 'delay'; readonly ms: number }
  /**
   * The request or its answer is lost, so the client gets no answer. Only a request whose answer is lost is carried
   * out.
   */
  | { readonly type: 'drop'; readonly lost: 'request' | 'answer' }
  | { readonly type: 'refuse' }
  /** The client gets an answer with this status. The request does not reach the server. */
  | { readonly type: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** The request is carried out, but its answer is unreadable. A stream breaks at its first event. */
  | { readonly type: 'garbage' }
  /** After this many events a stream breaks (`cut`), ends normally (`end`), or sends no more (`stall`). */
  | { readonly type: 'cut' | 'end' | 'stall'; readonly afterEvents: number }
  /**
   * An event other than a bookmark is lost, and its stream continues. The rule also affects streams that are already
   * open. Each lost event counts as a fault.
   */
  | { readonly type: 'lose' }

/** What a fault affects: a request, a stream from its opening on, or one event of a stream. */
type Subject = 'request' | 'stream' | 'event'

function subjectOf(fault: Fault): Subject {
  if (fault.type === 'lose') return 'event'
  return 'afterEvents' in fault ? 'stream' : 'request'
}

/**
 * A fault, and which requests get it. Without `methods`, `pathPrefix` and `stream` the rule matches every request, or
 * every watch if the fault affects only watches.
 */
export interface FaultRule {
  readonly fault: Fault
  readonly methods?: readonly ApiRequest['method'][]
  readonly pathPrefix?: string
  /** True: only watches. False: only other requests. */
  readonly stream?: boolean
  /** The probability of the fault, 0 to 1, for each matching request, stream or, with `lose`, event. @default 1 */
  readonly probability?: number
  /**
   * The rule ends after this many faults. `cut`, `end` and `stall` count when their stream opens. @default no limit
   */
  readonly times?: number
}

/**
 * The fields of a fault beside its type. Each function returns what is wrong with the value of its field; undefined:
 * nothing.
 */
type FaultFields = Readonly<Record<string, (value: unknown) => string | undefined>>

const afterEvents: FaultFields = { afterEvents: (value) => numberMistake('afterEvents', value) }
const faultFields: Readonly<Record<Fault['type'], FaultFields>> = {
  delay: { ms: (value) => numberMistake('ms', value) },
  drop: {
    lost: (value) => (value === 'request' || value === 'answer' ? undefined : "lost must be 'request' or 'answer'"),
  },
  refuse: {},
  status: {
    status: (value) => numberMistake('status', value, 100, 599),
    retryAfterSeconds: (value = 0) => numberMistake('retryAfterSeconds', value),
  },
  garbage: {},
  cut: afterEvents,
  end: afterEvents,
  stall: afterEvents,
  lose: {},
}
const ruleFields = ['fault', 'methods', 'pathPrefix', 'stream', 'probability', 'times']
const methods: readonly unknown[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Checks a rule, because tests in JavaScript have no compiler, and a misspelt rule would cause no fault.
 * @throws TypeError
 */
function checkRule(rule: FaultRule): void {
  const { fault = {}, probability = 1, times = 1 } = rule as { readonly fault?: object } & FaultRule
  const { type, ...fields } = fault as { readonly type?: string; readonly [field: string]: unknown }
  const types = Object.keys(faultFields)
  if (type === undefined || !types.includes(type)) throw new TypeError(`fault.type must be one of ${types.join(', ')}`)
  const known = faultFields[type as Fault['type']]
  const mistakes = [
    ...Object.entries(known).map(([name, mistakeOf]) => mistakeOf(fields[name])),
    unknownField(fields, Object.keys(known)),
    unknownField(rule, ruleFields),
    numberMistake('probability', probability, 0, 1),
    numberMistake('times', times, 1),
    methodsMistake(rule.methods),
    pathMistake(rule.pathPrefix),
    rule.stream === undefined || typeof rule.stream === 'boolean' ? undefined : 'stream must be true or false',
    rule.stream === false && subjectOf(rule.fault) !== 'request'
      ? 'with stream: false it matches no watch, but its fault affects only watches'
      : undefined,
  ]
  const first = mistakes.find((found) => found !== undefined)
  if (first !== undefined) throw new TypeError(`invalid rule with fault ${type}: ${first}`)
}

function unknownField(given: object, names: readonly string[]): string | undefined {
  const name = Object.keys(given).find((key) => !names.includes(key))
  if (name === undefined) return undefined
  return `${name} is not a field; known fields: ${names.length > 0 ? names.join(', ') : 'none'}`
}

function methodsMistake(given: unknown): string | undefined {
  if (given === undefined) return undefined
  if (!Array.isArray(given) || given.length === 0) return `methods must be a list of ${methods.join(', ')}`
  const unknown = given.find((method) => !methods.includes(method))
  return unknown === undefined ? undefined : `methods contains ${unknown}; known methods: ${methods.join(', ')}`
}

function pathMistake(given: unknown): string | undefined {
  const isPath = given === undefined || (typeof given === 'string' && given.startsWith('/'))
  return isPath ? undefined : 'pathPrefix must be a string that begins with /'
}

function numberMistake(name: string, value: unknown, least = 0, most = Number.MAX_SAFE_INTEGER): string | undefined {
  if (typeof value === 'number' && value >= least && value <= most) return undefined
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`
  return `${name} must be a number ${range}`
}

/** Whether a rule matches this request. Its probability and count are not considered. */
function isFor(rule: FaultRule, request: ApiRequest): boolean {
  if (rule.methods !== undefined && !rule.methods.includes(request.method)) return false
  if (rule.pathPrefix !== undefined && !request.path.startsWith(rule.pathPrefix)) return false
  return rule.stream === undefined || rule.stream === (request.stream === true)
}

const reasons: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

export function refusedWith(status: number, retryAfterSeconds: number | undefined): ApiResponse {
  const details = retryAfterSeconds === undefined ? undefined : { retryAfterSeconds }
  return answerOf(new Refusal(status, reasons[status] ?? 'Unknown', `injected fault: ${status}`, details))
}

/** The answer with only half of its JSON, which cannot be parsed. */
function torn(response: ApiResponse): ApiResponse {
  const text = 'body' in response ? JSON.stringify(response.body ?? null) : ''
  return { status: response.status, headers: response.headers, body: `${text.slice(0, text.length / 2)}\0` }
}
