import type { TestContext } from 'node:test'
import type { WatchEvent } from '../../src/kube/api.ts'
import { Informer, type InformerContext } from '../../src/kube/informer.ts'
import { type KubeObject, type Pod, pods, type Resource, type Service, services } from '../../src/kube/resources.ts'
import { keyOfObject } from '../../src/kube/store.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { ServiceMembers } from '../../src/workloads/service-members.ts'
import { trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { added, bookmark, ScriptedApi } from '../kube/scripted-api.ts'

/** The objects of one resource on a server that the test simulates, and the informer that follows them. */
class Followed<T extends KubeObject> {
  readonly informer: Informer<T>
  readonly #api: ScriptedApi
  readonly #time: VirtualClock
  readonly #resource: Resource<T>
  readonly #objects = new Map<string, T>()
  #version = 0

  constructor(
    context: InformerContext & { readonly api: ScriptedApi },
    time: VirtualClock,
    resource: Resource<T>,
    transform: (object: T) => T,
  ) {
    this.#api = context.api
    this.#time = time
    this.#resource = resource
    this.informer = new Informer({ ...context, resource, transform })
  }

  get objects(): readonly T[] {
    return [...this.#objects.values()]
  }

  /** The first events of a new watch. */
  present(): readonly WatchEvent<KubeObject>[] {
    return [...this.objects.map((object) => added(object)), bookmark(`${++this.#version}`, 'initial-events-end')]
  }

  /** Stores an object. Its uid stays the same until the object is removed. */
  async put(object: T): Promise<void> {
    this.store(object)
    await this.#send({ type: 'MODIFIED', object: this.#objects.get(keyOfObject(object)) as T })
  }

  async delete(key: string): Promise<void> {
    const object = this.#objects.get(key)
    if (object === undefined) return
    this.remove(key)
    await this.#send({ type: 'DELETED', object })
  }

  /** Like {@link put}, but without an event. */
  store(object: T): void {
    const key = keyOfObject(object)
    const resourceVersion = `${++this.#version}`
    const uid = this.#objects.get(key)?.metadata?.uid ?? `uid-${resourceVersion}`
    this.#objects.set(key, { ...object, metadata: { ...object.metadata, uid, resourceVersion } })
  }

  remove(key: string): void {
    this.#objects.delete(key)
  }

  /** Breaks the watch, so that the informer must list again. */
  async relist(): Promise<void> {
    await this.#send({ type: 'ERROR', object: { code: 410 } })
    await this.#time.advance(1000)
  }

  async #send(event: WatchEvent<KubeObject>): Promise<void> {
    this.#api.watches.findLast(({ resource }) => resource.kind === this.#resource.kind)?.send(event)
    await this.#time.advance(0)
  }
}

/** Followed Pods and Services, and the {@link ServiceMembers} of them. */
export async function followPodsAndServices(t: TestContext) {
  const api = new ScriptedApi()
  const time = new VirtualClock()
  const context = { api, clock: time.view(), random: seededRandom(1, 'test'), logger: silentLogger }
  const world = {
    pods: new Followed<Pod>(context, time, pods, trimPod),
    services: new Followed<Service>(context, time, services, trimService),
  }
  api.onWatch = (watch) => {
    watch.open()
    if (watch.query.resourceVersion === undefined) {
      watch.send(...(watch.resource.kind === 'Pod' ? world.pods : world.services).present())
    }
  }
  const members = new ServiceMembers({ pods: world.pods.informer, services: world.services.informer })
  const controller = new AbortController()
  const runs = [world.pods.informer.run(controller.signal), world.services.informer.run(controller.signal)]
  const end = async (): Promise<void> => {
    controller.abort()
    await Promise.all(runs)
  }
  t.after(end)
  await Promise.all([world.pods.informer.whenSynced(), world.services.informer.whenSynced()])
  return { ...world, members, end }
}
