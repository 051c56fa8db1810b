import assert from 'node:assert/strict'
import { type ApiServerOptions, createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import {
  apiVersionOf,
  endpointSlices,
  endpoints,
  ipAddresses,
  type KubeObject,
  namespaces,
  type Resource,
  serviceCidrs,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { assertSame } from './same.ts'
import type { StoredObject, TableCase, Write } from './tables.ts'

const RESOURCES: readonly Resource<KubeObject>[] = [
  endpoints,
  endpointSlices,
  ipAddresses,
  namespaces,
  serviceCidrs,
  services,
]

/** An API server that holds the objects with which a case starts, and records later writes. */
export class World {
  /** The API that the code under test gets. */
  readonly api: KubeApi
  readonly clock: Clock
  /** All writes in their order, including refused ones. */
  readonly writes: Write[] = []
  readonly #direct: KubeApi
  readonly #time = new VirtualClock()

  private constructor(options: Partial<ApiServerOptions>) {
    this.clock = this.#time.view()
    const { clock } = this
    const server = createApiServer({ clock, random: seededRandom(1, 'server'), ...options })
    this.#direct = restKubeApi({ transport: inProcessTransport(server), clock, random: seededRandom(1, 'client') })
    this.api = recording(this.#direct, (write) => this.writes.push(write))
  }

  /** `base`: further objects, such as the namespace or the range that the objects need. */
  static async start(
    objects: readonly StoredObject[],
    base: readonly StoredObject[] = [],
    options: Partial<ApiServerOptions> = {},
  ): Promise<World> {
    const world = new World(options)
    const named = [...base, ...objects].filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata.name)
    const used = objects.flatMap(({ metadata }) => metadata.namespace ?? [])
    for (const name of new Set(used)) if (!named.includes(name)) await world.#put(namespaceObject(name))
    for (const object of [...base, ...objects]) await world.#put(object)
    return world
  }

  /**
   * Runs a controller until it has done its work: for less than any interval after which it would reconcile again,
   * unless `ms` is longer.
   */
  async runWhileBusy(run: (signal: AbortSignal) => Promise<void>, ms = 5_000): Promise<void> {
    const controller = new AbortController()
    const running = run(controller.signal).then(
      () => 'ended' as const,
      (error: unknown) => ({ error }),
    )
    await this.#time.advance(ms)
    assert.equal(await Promise.race([running, 'runs']), 'runs', 'the controller ended by itself')
    controller.abort()
    await running
  }

  /**
   * Asserts the writes and the objects of the given kinds that a case expects.
   *
   * @param defaults - whether fields that upstream's recording does not have may be there.
   */
  async assertResult(
    { writes, objects }: TableCase['expect'],
    kinds: readonly Resource<KubeObject>[],
    defaults: 'refuse' | 'allow' = 'refuse',
  ): Promise<void> {
    assertSame(this.writes, writes, 'the writes', defaults)
    assertSame(await this.#objects(kinds), [...objects].sort(byKey), 'the objects afterwards', defaults)
  }

  async #put(object: StoredObject): Promise<void> {
    const resource = resourceOf(object.kind)
    const { deletionTimestamp, ...metadata } = object.metadata
    const ref = { namespace: metadata.namespace, name: metadata.name }
    // An object that is being deleted exists only while a finalizer holds it.
    const held = deletionTimestamp === undefined ? metadata : { ...metadata, finalizers: ['test/hold'] }
    await this.#direct.create(resource, { ...object, metadata: held })
    // A server drops the status of a created object.
    if ('status' in object) await this.#direct.update(resource, object, { subresource: 'status' })
    if (deletionTimestamp !== undefined) await this.#direct.delete(resource, ref)
  }

  async #objects(kinds: readonly Resource<KubeObject>[]): Promise<readonly StoredObject[]> {
    const all: StoredObject[] = []
    for (const resource of kinds) {
      const { items } = await this.#direct.list(resource)
      // Items of a list have neither apiVersion nor kind.
      all.push(
        ...items.map((item) => ({ ...item, apiVersion: apiVersionOf(resource), kind: resource.kind }) as StoredObject),
      )
    }
    return all.sort(byKey)
  }
}

/** The empty namespace of default/kubernetes. */
export const DEFAULT_NAMESPACE = namespaceObject('default')

function namespaceObject(name: string): StoredObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }
}

function resourceOf(kind: string): Resource<KubeObject> {
  const found = RESOURCES.find((resource) => resource.kind === kind)
  if (found === undefined) throw new Error(`no case has objects of kind ${kind}`)
  return found
}

function byKey(a: StoredObject, b: StoredObject): number {
  const [left, right] = [keyOf(a), keyOf(b)]
  return left < right ? -1 : left > right ? 1 : 0
}

function keyOf({ kind, metadata }: StoredObject): string {
  return `${kind}/${metadata.namespace ?? ''}/${metadata.name}`
}

/** The same API, which records each write before it sends it. */
function recording(api: KubeApi, note: (write: Write) => void): KubeApi {
  return {
    get: (...call) => api.get(...call),
    list: (...call) => api.list(...call),
    watch: (...call) => api.watch(...call),
    create(resource, object, options) {
      note({ verb: 'create', resource: resource.plural, object: object as unknown as StoredObject })
      return api.create(resource, object, options)
    },
    update(resource, object, options) {
      note({ verb: 'update', resource: resource.plural, object: object as unknown as StoredObject })
      return api.update(resource, object, options)
    },
    patch(resource, ref, patch, options) {
      note({
        verb: 'patch',
        resource: resource.plural,
        ...(options?.subresource === undefined ? {} : { subresource: options.subresource }),
        ref,
        ...(options?.fieldManager === undefined ? {} : { fieldManager: options.fieldManager }),
        patchType: patch.type,
        force: patch.type === 'apply' && patch.force === true,
        body: patch.body as StoredObject,
      })
      return api.patch(resource, ref, patch, options)
    },
    delete(resource, ref, options) {
      note({ verb: 'delete', resource: resource.plural, ref })
      return api.delete(resource, ref, options)
    },
  }
}
