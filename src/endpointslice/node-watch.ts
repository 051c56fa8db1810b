import type { Change, Followed } from '../kube/informer.ts'
import type { Node } from '../kube/resources.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { AwaitedNodes } from './awaited-nodes.ts'
import { zoneOf } from './pod-endpoint.ts'
import type { ServiceSlices } from './service-slices.ts'
import type { TopologyCache } from './topology/topology-cache.ts'

export interface NodeWatchOptions {
  readonly nodes: Followed<Node>
  readonly slices: ServiceSlices
  readonly topology: TopologyCache
  readonly awaited: AwaitedNodes
  /** Is called with the key of each Service that has to be looked at. */
  readonly queue: (serviceKey: string) => void
}

/**
 * Finds the Services for which a change of Nodes means something: those whose hints would overload a zone, as upstream; and, beyond upstream, those that left
 * Pods out for want of a Node that has come, and those with endpoints in a zone that their Node is not in any more.
 */
export class NodeWatch {
  readonly #options: NodeWatchOptions
  /** Many Nodes may change at once: they are looked at together. */
  readonly #trigger = new Trigger<'changed'>()
  /** The names of Nodes whose zone has changed since. */
  #rezoned = new Set<string>()
  #version = 0

  constructor(options: NodeWatchOptions) {
    this.#options = options
    options.nodes.subscribe((change) => this.#changed(change))
  }

  /** Another number whenever a Node has come, gone or moved to another zone. */
  get version(): number {
    return this.#version
  }

  /** Looks at what has changed whenever something has, until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#trigger.take(signal)
      } catch (error) {
        if (signal.aborted) return
        throw error
      }
      this.check()
    }
  }

  /** Takes in all Nodes and queues the Services that are concerned. */
  check(): void {
    const { nodes, topology, queue } = this.#options
    topology.setNodes(nodes.store.list())
    for (const key of topology.overloadedServices()) queue(key)
    const rezoned = this.#rezoned
    if (rezoned.size === 0) return
    this.#rezoned = new Set()
    for (const key of this.#inFormerZones(rezoned)) queue(key)
  }

  #changed(change: Change<Node>): void {
    const { awaited, queue } = this.#options
    switch (change.type) {
      case 'added': {
        const name = nameOf(change.object)
        this.#rezoned.add(name)
        this.#version++
        for (const key of awaited.waitingFor(name)) queue(key)
        break
      }
      case 'updated': {
        const { old, object } = change
        const rezoned = zoneOf(old) !== zoneOf(object)
        if (rezoned) {
          this.#rezoned.add(nameOf(object))
          this.#version++
        } else if (isReady(old) === isReady(object)) return
        break
      }
      case 'deleted':
        this.#version++
    }
    this.#trigger.fire('changed')
  }

  /** The Services that have endpoints on one of these Nodes in another zone than its present one. */
  *#inFormerZones(names: ReadonlySet<string>): Iterable<string> {
    const { nodes, slices } = this.#options
    for (const [key, own] of slices.entries()) {
      const outdated = [...own.values()].some((slice) =>
        slice.endpoints?.some(({ nodeName, zone }) => {
          if (!nodeName || !names.has(nodeName)) return false
          const node = nodes.store.get({ name: nodeName })
          return node !== undefined && (zone ?? undefined) !== zoneOf(node)
        }),
      )
      if (outdated) yield key
    }
  }
}

function nameOf(node: Node): string {
  return node.metadata?.name ?? ''
}

function isReady(node: Node): boolean {
  return node.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}
