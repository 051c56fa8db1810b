import type { Change, Followed } from '../kube/informer.ts'
import type { Node } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'
import { Trigger } from '../runtime/trigger.ts'
import { zoneOf } from './endpoint.ts'
import type { ServiceSlices } from './slice-index.ts'
import { isReadyNode } from './topology/allocations.ts'
import type { TopologyCache } from './topology/topology-cache.ts'

interface NodeWatchOptions {
  readonly nodes: Followed<Node>
  readonly slices: ServiceSlices
  readonly topology: TopologyCache
  readonly awaited: AwaitedNodes
  /** Called with the key of each affected Service. */
  readonly queue: (serviceKey: string) => void
}

/**
 * Finds the Services that a change of Nodes affects. As upstream, these are Services whose hints overload a zone.
 * Beyond upstream, they include Services that left Pods out because of a Node that has appeared, and Services with an
 * endpoint whose Node has moved to another zone.
 */
export class NodeWatch {
  readonly #options: NodeWatchOptions
  /** Fires when a Node has changed in a way that may matter. If many Nodes change at once, one check covers them. */
  readonly #trigger = new Trigger<'changed'>()
  /** The names of Nodes that were added or moved to another zone since the last check. */
  #rezoned = new Set<string>()
  #version = 0

  constructor(options: NodeWatchOptions) {
    this.#options = options
    options.nodes.subscribe((change) => this.#changed(change))
  }

  /** A number that changes whenever a Node appears, disappears or moves to another zone. */
  get version(): number {
    return this.#version
  }

  /** Makes a check after each change of Nodes, until the signal is aborted; then rejects with the signal's reason. */
  async run(signal: AbortSignal): Promise<never> {
    for (;;) {
      await this.#trigger.take(signal)
      this.check()
    }
  }

  /** Passes all Nodes to the topology cache, and queues the affected Services. */
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
        } else if (isReadyNode(old) === isReadyNode(object)) return
        break
      }
      case 'deleted':
        this.#version++
    }
    this.#trigger.fire('changed')
  }

  /** The keys of the Services that have an endpoint on one of these Nodes, with a zone that is not the Node's. */
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

/** The Services that left Pods out because their Nodes were unknown. They are synced when such a Node appears. */
export class AwaitedNodes {
  readonly #servicesByNode = new Map<string, Set<string>>()
  readonly #nodesByService = new Map<string, ReadonlySet<string>>()

  /** Sets the names of the Nodes for which a Service waits. An empty set removes the Service. */
  set(serviceKey: string, nodes: ReadonlySet<string>): void {
    for (const node of this.#nodesByService.get(serviceKey) ?? []) {
      const services = this.#servicesByNode.get(node)
      services?.delete(serviceKey)
      if (services?.size === 0) this.#servicesByNode.delete(node)
    }
    if (nodes.size === 0) {
      this.#nodesByService.delete(serviceKey)
      return
    }
    this.#nodesByService.set(serviceKey, nodes)
    for (const node of nodes) getOrMake(this.#servicesByNode, node, () => new Set()).add(serviceKey)
  }

  waitingFor(node: string): readonly string[] {
    return [...(this.#servicesByNode.get(node) ?? [])]
  }
}
