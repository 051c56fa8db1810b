import { setTimeout as sleep } from 'node:timers/promises'
import {
  type EndpointSlice,
  type Endpoints,
  namespaces as namespaceResource,
  pathOf,
} from '../../../src/kube/resources.ts'
import type { SeenEvent } from '../../peers/api-client.ts'
import type { Apiserver } from '../../peers/apiserver.ts'
import { startCluster } from '../../peers/cluster.ts'
import { startControllerManager } from '../../peers/controller-manager.ts'
import { FaultProxy } from '../../peers/fault-proxy.ts'
import { type Owner, openOwner } from '../../peers/owner.ts'
import type { RunningProcess } from '../../peers/process.ts'
import { startMaster } from '../../peers/program.ts'
import { untilPasses } from '../../peers/until.ts'
import { type ClusterState, canary, pathTo, readClusterState } from './cluster-state.ts'
import { spoil } from './spoil.ts'
import type { Plural, Step } from './steps.ts'

/** The program whose controllers run on a side. */
export type Controllers = 'kube-controller-manager' | 'apiserver-bootstrap'

/**
 * The controllers have come to rest if they write nothing for so long. The sync after a change of a slice is one second
 * away, or two after a failure.
 */
const quietMs = 2600
const quietWithinMs = 60_000

/** An API server with the controllers under comparison. It runs one history after another. */
export class Side {
  readonly controllers: Controllers
  readonly server: Apiserver
  readonly #owner: Owner
  #running: Owner | undefined
  #options: ControllerOptions = { maxEndpointsPerSlice: 100 }
  #process: RunningProcess | undefined
  /** Between this program and the server, if there is trouble. */
  #proxy: FaultProxy | undefined
  #changedAt = 0
  #lives = 0
  #songs = 0
  #watchFailure: unknown

  private constructor(owner: Owner, server: Apiserver, controllers: Controllers) {
    this.#owner = owner
    this.server = server
    this.controllers = controllers
  }

  static async start(
    owner: Owner,
    controllers: Controllers,
    { trouble, ...options }: ControllerOptions & { readonly trouble?: Trouble | undefined },
  ): Promise<Side> {
    const range = '10.96.0.0/16,fd00:10:96::/112'
    const { server } = await startCluster(owner, { kind: 'stock', flags: [`--service-cluster-ip-range=${range}`] })
    const side = new Side(owner, server, controllers)
    if (trouble !== undefined) side.#proxy = await startTrouble(owner, server, trouble)
    const stop = new AbortController()
    owner.after(() => stop.abort())
    for (const path of ['/api/v1/endpoints', '/apis/discovery.k8s.io/v1/endpointslices']) {
      const changed = ({ object }: SeenEvent<Endpoints | EndpointSlice>): void => {
        const { namespace, name = '' } = object.metadata ?? {}
        if (namespace !== 'default' && !name.startsWith(canary)) side.#changedAt = performance.now()
      }
      // If a watch ended early, everything would seem quiet.
      side.server.api.watch(path, changed, stop.signal).catch((error: unknown) => {
        side.#watchFailure = error
      })
    }
    await side.startControllers(options)
    return side
  }

  /** Starts the controllers, or restarts them with other options. */
  async startControllers({ maxEndpointsPerSlice }: ControllerOptions): Promise<void> {
    await this.stopControllers()
    this.#options = { maxEndpointsPerSlice }
    const owner = openOwner()
    this.#running = owner
    this.#owner.after(() => owner.close())
    const flags = [`--max-endpoints-per-slice=${maxEndpointsPerSlice}`]
    if (this.controllers === 'kube-controller-manager') {
      this.#process = await startControllerManager(owner, this.server, undefined, flags)
      return
    }
    const program = await startMaster(owner, this.#proxy ?? this.server, {
      address: '192.0.2.1',
      flags: [
        '--controllers=endpoints,endpointslice,endpointslice-mirroring',
        '--endpoint-reconciler-type=none',
        '--leader-elect=false',
        ...flags,
      ],
    })
    this.#process = program.process
  }

  async stopControllers(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    this.#process = undefined
    await running?.close()
  }

  /** Runs a history in namespaces of its own. Resolves when all is quiet, with the answer to each step. */
  async live(steps: readonly Step[]): Promise<Life> {
    const { api } = this.server
    // A history that was cut short may have stopped them.
    if (this.#running === undefined) await this.startControllers(this.#options)
    const life = ++this.#lives
    const namespaces = ['a', 'b'].map((name) => `life-${life}-${name}`)
    for (const name of namespaces) await api.create('/api/v1/namespaces', { metadata: { name } })
    const service = { metadata: { name: canary }, spec: { clusterIP: 'None', selector: { canary } } }
    await api.create(pathTo('services', namespaces[0]), service)
    await this.#whenCanarySings(namespaces[0] as string)
    const answers: string[] = []
    for (const step of steps) answers.push(await this.#apply(step, namespaces))
    await this.#whenQuiet(namespaces[0] as string)
    return {
      answers,
      state: () => readClusterState(api, namespaces),
      end: () => this.#clear(namespaces),
    }
  }

  /** The end of the controllers' log. */
  tail(): string {
    return this.#process?.tail(40) ?? ''
  }

  /** Resolves when the controllers have nothing more to do in the namespaces of a life. */
  async #whenQuiet(namespace: string): Promise<void> {
    const from = performance.now()
    this.#changedAt = Math.max(this.#changedAt, from)
    for (;;) {
      this.#assertRunning()
      const leftMs = this.#changedAt + quietMs - performance.now()
      if (performance.now() - from > quietWithinMs) {
        throw new Error(`${this.controllers} does not come to rest\n${this.tail()}`)
      }
      if (leftMs > 0) {
        await sleep(leftMs)
        continue
      }
      // Controllers without processor time are quiet too: they must also have processed a last change.
      const changedAt = this.#changedAt
      await this.#whenCanarySings(namespace)
      if (this.#changedAt === changedAt) return
    }
  }

  /** Changes a Service that nothing else uses, and waits until its Endpoints and its slice show the change. */
  async #whenCanarySings(namespace: string): Promise<void> {
    const { api } = this.server
    const song = String(++this.#songs)
    const labels = { song }
    await api.merge(pathTo('services', namespace, canary), { metadata: { labels } })
    const selector = `labelSelector=song%3D${song}`
    await untilPasses(
      `${this.controllers} to have seen a label`,
      async () => {
        this.#assertRunning()
        for (const plural of ['endpoints', 'endpointslices'] as const) {
          const { items } = await api.get<{ items: unknown[] }>(`${pathTo(plural, namespace)}?${selector}`)
          if (items.length !== 1) throw new Error(`${items.length} ${plural}\n${this.tail()}`)
        }
      },
      { withinMs: quietWithinMs },
    )
  }

  #assertRunning(): void {
    if (this.#watchFailure !== undefined) throw new Error('a watch ended', { cause: this.#watchFailure })
    if (this.#process?.exit !== undefined) throw new Error(`${this.controllers} ended\n${this.tail()}`)
  }

  async #apply(step: Step, namespaces: readonly string[]): Promise<string> {
    const { api } = this.server
    switch (step.type) {
      case 'pause':
        await sleep(step.ms)
        return ''
      case 'quiet':
        await this.#whenQuiet(namespaces[0] as string)
        return ''
      case 'terminate':
        return described(await api.send('DELETE', pathOf(namespaceResource, { name: namespaces[step.namespace] })))
      case 'stop controllers':
        await this.stopControllers()
        return ''
      case 'start controllers':
        await this.startControllers(this.#options)
        await this.#whenCanarySings(namespaces[0] as string)
        return ''
      case 'spoil':
        await spoil(api, namespaces[step.namespace] as string, step)
        return ''
      case 'create':
        return described(await api.send('POST', this.#path(withName(step), namespaces), { body: step.object }))
      case 'patch': {
        const path = this.#path(step, namespaces)
        const answer = await api.send('PATCH', path, {
          body: step.patch,
          contentType: 'application/merge-patch+json',
        })
        return step.mayMiss ? '' : described(answer)
      }
      case 'delete': {
        const body = step.graceSeconds === undefined ? {} : { body: { gracePeriodSeconds: step.graceSeconds } }
        const answer = await api.send('DELETE', this.#path(step, namespaces), body)
        return step.mayMiss ? '' : described(answer)
      }
    }
  }

  #path(
    step: { plural: Plural; namespace?: number | undefined; name?: string; subresource?: string },
    namespaces: readonly string[],
  ): string {
    const namespace = step.namespace === undefined ? undefined : namespaces[step.namespace]
    return pathTo(step.plural, namespace, step.name, step.subresource)
  }

  /** Removes what a history has left; the namespaces are not used again. */
  async #clear(namespaces: readonly string[]): Promise<void> {
    const { api } = this.server
    for (const namespace of namespaces) {
      const services = await api.get<{ readonly items: readonly { readonly metadata: { readonly name: string } }[] }>(
        pathTo('services', namespace),
      )
      for (const { metadata } of services.items) await api.send('DELETE', pathTo('services', namespace, metadata.name))
      const pods = await api.get<{
        readonly items: readonly { readonly metadata: { readonly name: string; readonly finalizers?: unknown } }[]
      }>(pathTo('pods', namespace))
      for (const { metadata } of pods.items) {
        if (metadata.finalizers === undefined) continue
        const path = pathTo('pods', namespace, metadata.name)
        await api.merge(path, { metadata: { finalizers: null } })
      }
      await api.send('DELETE', pathTo('pods', namespace), { body: { gracePeriodSeconds: 0 } })
      await api.send('DELETE', pathTo('endpoints', namespace))
      await api.send('DELETE', pathTo('endpointslices', namespace))
    }
    await api.send('DELETE', pathTo('nodes', undefined))
  }
}

/** The part of a side that runs a history. */
export type Livable = Pick<Side, 'controllers' | 'live' | 'tail'>

export interface ControllerOptions {
  readonly maxEndpointsPerSlice: number
}

/** What happens to the program's requests: the server answers only in JSON, or a watch is cut now and then. */
export type Trouble = 'no-protobuf' | 'cut-watches'

/** The resources that the controllers watch. */
const watched = ['services', 'pods', 'nodes', 'endpoints', 'endpointslices', 'namespaces']
/** The longest time between two cuts, in milliseconds. A history takes some seconds. */
const longestUncutMs = 500

/** Starts a proxy in front of the server, through which the program has this trouble. */
async function startTrouble(owner: Owner, server: Apiserver, trouble: Trouble): Promise<FaultProxy> {
  const proxy = await FaultProxy.start(owner, server, trouble === 'no-protobuf' ? 'none' : 'all')
  if (trouble === 'no-protobuf') return proxy
  let timer: NodeJS.Timeout | undefined
  const cut = (): void => {
    const resources = [watched[Math.floor(Math.random() * watched.length)] as string]
    proxy.place({ fault: { type: 'cut-watches', everyMs: 1_000_000 }, resources }).end()
    timer = setTimeout(cut, Math.random() * longestUncutMs)
  }
  cut()
  owner.after(() => clearTimeout(timer))
  return proxy
}

/** A history that has run on a side. */
export interface Life {
  /** For each step: empty, or the status of the answer. */
  readonly answers: readonly string[]
  /** Reads the present state. */
  state(): Promise<ClusterState>
  /** Removes all its objects. */
  end(): Promise<void>
}

/** A subresource is created under the name of its object. */
function withName(step: Extract<Step, { readonly type: 'create' }>): typeof step & { readonly name?: string } {
  const name = step.object.metadata?.name
  return step.subresource === undefined || name === undefined ? step : { ...step, name }
}

function described({ status, body }: { readonly status: number; readonly body: unknown }): string {
  if (status < 300) return String(status)
  const { reason, message } = body as { readonly reason?: string; readonly message?: string }
  return `${status} ${reason} ${message}`
}
