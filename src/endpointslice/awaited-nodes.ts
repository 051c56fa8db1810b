/** Which Services left Pods out because their Nodes were not known: they are due when such a Node appears. */
export class AwaitedNodes {
  readonly #servicesByNode = new Map<string, Set<string>>()
  readonly #nodesByService = new Map<string, ReadonlySet<string>>()

  /** Sets the names of the Nodes that a Service, by its key, waits for; none forgets it. */
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
    for (const node of nodes) {
      const services = this.#servicesByNode.get(node)
      if (services === undefined) this.#servicesByNode.set(node, new Set([serviceKey]))
      else services.add(serviceKey)
    }
  }

  /** The keys of the Services that wait for a Node. */
  waitingFor(node: string): readonly string[] {
    return [...(this.#servicesByNode.get(node) ?? [])]
  }
}
