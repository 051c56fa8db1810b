import { randomInteger } from '../../src/runtime/random.ts'
import {
  newEndpoints,
  newService,
  oneOf,
  portsOf,
  selectorOf,
  serviceLabels,
  trafficDistributionOf,
  zones,
} from './churn-objects.ts'
import { PodChurn, type PodChurnOptions } from './churn-pods.ts'
import { type UserApi, UserRequests } from './churn-requests.ts'
import { slicePath, spoil } from './churn-vandal.ts'
import { type ClusterState, readClusterState } from './cluster-state.ts'

export interface ChurnOptions extends PodChurnOptions {
  readonly api: UserApi
  /** Whether a vandal damages Endpoints and slices. */
  readonly hasVandal: boolean
  /** Whether Nodes come, go and change their zones. */
  readonly changesNodes: boolean
  /** Whether a garbage collector runs too. @default true */
  readonly collectsGarbage?: boolean
  /** Whether new Services reuse the names of earlier ones. @default true */
  readonly reusesNames?: boolean
}

/**
 * The users of a cluster: they create, change and delete Services, Pods and Nodes. They avoid changes that upstream's
 * controllers do not notice by themselves: no Pod ends that was never ready, and no hostname changes.
 */
export class Churn {
  readonly #options: ChurnOptions
  readonly #requests: UserRequests
  readonly #pods: PodChurn
  readonly #services = new Set<string>()
  /** Services without a selector. */
  readonly #manual = new Set<string>()
  readonly #nodes = new Set<string>()
  #madeServices = 1_000
  /** Actions that took place. */
  done = 0

  constructor(options: ChurnOptions) {
    this.#options = options
    this.#requests = new UserRequests(options.api, options.namespace)
    this.#pods = new PodChurn(options, this.#requests)
  }

  /** Creates the objects that exist at the start. */
  async prepare(): Promise<void> {
    const { nodes, services, pods } = this.#options
    for (let index = 0; index < nodes; index++) await this.#addNode(`node-${index}`)
    for (let index = 0; index < services / 2; index++) await this.#addService(`service-${index}`)
    for (let index = 0; index < pods / 2; index++) await this.#pods.add()
  }

  /** Takes a random action. Resolves with false if it was not carried out. */
  async step(): Promise<boolean> {
    const { random, hasVandal, changesNodes } = this.#options
    const actions: (readonly [weight: number, action: () => Promise<string | undefined>])[] = [
      [5, () => this.#pods.add()],
      [8, () => this.#pods.flip()],
      [4, () => this.#pods.delete()],
      [4, () => this.#pods.remove()],
      [1, () => this.#pods.end()],
      [1, () => this.#pods.relabel()],
      [1, () => this.#pods.move()],
      [2, () => this.#addService(this.#nextName())],
      [3, () => this.#changeService()],
      [2, () => this.#deleteService()],
      [2, () => this.#writeEndpoints()],
      [1, () => this.collectGarbage()],
      [hasVandal ? 3 : 0, () => this.#spoil()],
      [changesNodes ? 2 : 0, () => this.#changeNode()],
    ]
    let choice = random.next() * actions.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, action] of actions) {
      choice -= weight
      if (choice >= 0) continue
      const done = await action()
      if (done === undefined) return false
      this.done++
      this.#options.note(done)
      return true
    }
    return false
  }

  /** Changes the readiness of a Pod, and changes it back after a wait. The desired state is then that from before. */
  flap(wait: () => Promise<void>): Promise<void> {
    return this.#pods.flap(wait)
  }

  /** Acts as the garbage collector, if there is one: removes slices whose owner is gone. */
  async collectGarbage(): Promise<string | undefined> {
    if (this.#options.collectsGarbage === false) return undefined
    const { services, endpoints, slices } = await this.state()
    const uids = new Set([...services, ...endpoints].map(({ metadata }) => metadata?.uid))
    const orphans = slices.filter(({ metadata }) => metadata?.ownerReferences?.some(({ uid }) => !uids.has(uid)))
    for (const orphan of orphans) await this.#requests.did('DELETE', slicePath(orphan))
    return orphans.length > 0 ? `collect ${orphans.length} slices` : undefined
  }

  state(): Promise<ClusterState> {
    return readClusterState((path) => this.#requests.get(path))
  }

  #nextName(): string {
    const { random, services, reusesNames = true } = this.#options
    if (reusesNames) return `service-${randomInteger(random, services)}`
    return this.#services.size < services ? `service-${this.#madeServices++}` : ([...this.#services][0] ?? '')
  }

  async #addService(name: string): Promise<string | undefined> {
    const { random, namespace, isDualStack } = this.#options
    if (this.#services.has(name)) return undefined
    const service = newService(name, namespace, random, isDualStack)
    this.#services.add(name)
    if (service.spec?.selector === undefined) this.#manual.add(name)
    else this.#manual.delete(name)
    return (await this.#requests.did('POST', this.#requests.path('services'), service)) ? `add ${name}` : undefined
  }

  /** Users write the Endpoints of Services without a selector. */
  async #writeEndpoints(): Promise<string | undefined> {
    const { random, namespace } = this.#options
    const names = [...this.#manual].filter((name) => this.#services.has(name))
    if (names.length === 0) return undefined
    const name = oneOf(random, names)
    const path = this.#requests.path('endpoints', name)
    if (random.next() < 0.15) return (await this.#requests.did('DELETE', path)) ? `delete Endpoints ${name}` : undefined
    const wanted = newEndpoints(name, namespace, random)
    const isDone =
      (await this.#requests.did('POST', this.#requests.path('endpoints'), wanted)) ||
      (await this.#requests.did('PUT', path, wanted))
    return isDone ? `write Endpoints ${name}` : undefined
  }

  async #changeService(): Promise<string | undefined> {
    const { random } = this.#options
    if (this.#services.size === 0) return undefined
    const name = oneOf(random, [...this.#services])
    const [path, value] = oneOf<() => readonly [string, unknown]>(random, [
      () => ['/spec/selector', selectorOf(random)],
      () => ['/spec/ports', portsOf(random)],
      () => ['/spec/publishNotReadyAddresses', random.next() < 0.5],
      () => ['/metadata/labels', serviceLabels(random)],
      () => ['/spec/trafficDistribution', trafficDistributionOf(random)],
    ])()
    const change = value === undefined ? [] : [{ op: 'add', path, value }]
    const url = this.#requests.path('services', name)
    const isDone = await this.#requests.did('PATCH', url, change, 'application/json-patch+json')
    if (!isDone) this.#services.delete(name)
    else if (path === '/spec/selector') this.#manual.delete(name)
    return isDone ? `change ${name} ${path} ${JSON.stringify(value)}` : undefined
  }

  async #deleteService(): Promise<string | undefined> {
    const { random } = this.#options
    if (this.#services.size === 0) return undefined
    const name = oneOf(random, [...this.#services])
    const isGone = await this.#requests.did('DELETE', this.#requests.path('services', name))
    this.#services.delete(name)
    const collected = random.next() < 0.7 ? await this.collectGarbage() : undefined
    const isReplaced = random.next() < 0.5 && (await this.#addService(name)) !== undefined
    if (!isGone && !isReplaced) return undefined
    return [`${isReplaced ? 'replace' : 'delete'} ${name}`, collected].filter((text) => text !== undefined).join(', ')
  }

  async #spoil(): Promise<string | undefined> {
    const { random, namespace } = this.#options
    const services = [...this.#services]
    const { slices } = await this.state()
    return spoil({ slices, services, namespace, random, did: (...request) => this.#requests.did(...request) })
  }

  async #changeNode(): Promise<string | undefined> {
    const { random, nodes } = this.#options
    const name = `node-${randomInteger(random, nodes)}`
    if (!this.#nodes.has(name)) return this.#addNode(name)
    if (random.next() < 0.5) {
      const isGone = await this.#requests.did('DELETE', `/api/v1/nodes/${name}`)
      this.#nodes.delete(name)
      return isGone ? `delete ${name}` : undefined
    }
    const zone = oneOf(random, zones)
    const labels = { 'topology.kubernetes.io/zone': zone }
    return (await this.#requests.patch(`/api/v1/nodes/${name}`, { metadata: { labels } }))
      ? `${name} is in ${zone}`
      : undefined
  }

  async #addNode(name: string): Promise<string | undefined> {
    const { random } = this.#options
    const labels = random.next() < 0.15 ? {} : { 'topology.kubernetes.io/zone': oneOf(random, zones) }
    const status = { conditions: [{ type: 'Ready', status: 'True' }], allocatable: { cpu: '4' } }
    this.#nodes.add(name)
    return (await this.#requests.did('POST', '/api/v1/nodes', { metadata: { name, labels }, status }))
      ? `add ${name}`
      : undefined
  }
}
