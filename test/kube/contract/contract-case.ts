import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { KubeApi, WatchEvent, WatchQuery } from '../../../src/kube/api.ts'
import { isKubeError, type KubeError, type KubeErrorCode } from '../../../src/kube/errors.ts'
import type { EndpointSlice, Endpoints, KubeObject, Resource, Service } from '../../../src/kube/resources.ts'
import { withTimeout } from '../../support/with-timeout.ts'

/** The server that the contract is tested against. */
export interface ContractTarget {
  readonly api: KubeApi
  /** An empty namespace that nobody else uses; other targets of the same server have others. */
  readonly namespace: string
}

/** One sentence of the contract. */
export interface ContractCase {
  readonly name: string
  readonly run: (target: ContractTarget, t: TestContext) => Promise<void>
}

/** Asserts the code of the error, by which callers decide, and returns the error. */
export async function rejectsWith(code: KubeErrorCode, promise: Promise<unknown>): Promise<KubeError> {
  try {
    await promise
  } catch (error) {
    assert.ok(isKubeError(error), `not a KubeError: ${error}`)
    assert.equal(error.code, code, error.message)
    return error
  }
  assert.fail(`expected ${code}, but the call succeeded`)
}

/** The fields that a refusal with 422 names. */
export function fieldsOf(error: KubeError): readonly (string | undefined)[] {
  return (error.status?.details?.causes ?? []).map((cause) => cause.field)
}

/** Asserts that a write is Invalid, and returns the fields that the error names, without duplicates. */
export async function refusedFields(refused: Promise<unknown>): Promise<readonly (string | undefined)[]> {
  return [...new Set(fieldsOf(await rejectsWith('Invalid', refused)))]
}

/** Endpoints for tests that need any object. */
export function endpointsIn(
  namespace: string,
  name: string,
  more: Partial<NonNullable<Endpoints['metadata']>> = {},
): Endpoints {
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...more, namespace, name },
    subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }],
  }
}

export function sliceIn(namespace: string, name: string, more: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace, name },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }],
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    ...more,
  }
}

export function serviceIn(namespace: string, name: string, spec: Service['spec'] = {}): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: { ports: [{ port: 443, protocol: 'TCP' }], ...spec },
  }
}

/** The object with other metadata. */
export function withMeta<T extends KubeObject>(object: T, metadata: object): T {
  return { ...object, metadata: { ...object.metadata, ...metadata } }
}

/** resourceVersions are opaque, but since Kubernetes 1.35 (KEP-5504) two of one kind may be compared. */
export function isNewer(a: KubeObject, b: KubeObject): boolean {
  return BigInt(a.metadata?.resourceVersion ?? '0') > BigInt(b.metadata?.resourceVersion ?? '0')
}

/** Reads a watch event by event. */
export class WatchReader<T extends KubeObject> {
  readonly #controller = new AbortController()
  readonly #events: AsyncIterator<WatchEvent<T>>
  readonly #opened: Promise<void>
  /** The event that `open` requested. */
  #first: Promise<IteratorResult<WatchEvent<T>>> | undefined

  constructor(api: KubeApi, resource: Resource<T>, query: WatchQuery, t: TestContext) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#opened = promise
    const { signal } = this.#controller
    this.#events = api.watch(resource, { ...query, signal, onOpen: resolve })[Symbol.asyncIterator]()
    t.after(() => this.stop())
  }

  /** Waits until the server has accepted the watch. */
  async open(): Promise<this> {
    this.#first = this.#events.next()
    this.#first.catch(() => {})
    await withTimeout(this.#opened, 10_000, 'the opening of the watch')
    return this
  }

  /** The next event. */
  async next(): Promise<WatchEvent<T>> {
    const result = await this.#read('a watch event')
    assert.ok(!result.done, 'the watch ended')
    return result.value
  }

  /** The next event, as `ADDED name`. */
  async nextText(): Promise<string> {
    const event = await this.next()
    if (event.type === 'ERROR') return `ERROR ${event.object.code}`
    return `${event.type} ${event.object.metadata?.name ?? ''}`.trimEnd()
  }

  async nextTexts(count: number): Promise<readonly string[]> {
    const texts: string[] = []
    for (let i = 0; i < count; i++) texts.push(await this.nextText())
    return texts
  }

  /** Asserts that the stream ends without another event. */
  async ends(): Promise<void> {
    const result = await this.#read('the end of the watch')
    assert.ok(result.done === true, `expected the end, but received ${JSON.stringify(result.value)}`)
  }

  /** Aborts the watch. */
  stop(): void {
    this.#controller.abort()
  }

  #read(what: string): Promise<IteratorResult<WatchEvent<T>>> {
    const result = this.#first ?? this.#events.next()
    this.#first = undefined
    return withTimeout(result, 10_000, what)
  }
}
