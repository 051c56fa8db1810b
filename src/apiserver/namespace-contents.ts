import type { Clock } from '../runtime/clock.ts'
import type { Kind } from './kind.ts'
import { namespaceKind } from './resources/namespaces.ts'
import type { Collection, StoredObject } from './store.ts'
import { deleteObject, removeObject, type WriteContext } from './writes.ts'

/**
 * Empties namespaces that are being deleted and then lets them go: the namespace controller of kube-controller-manager, which an
 * embedded server has to be itself. Works in the turn after a change; an object with finalizers keeps its namespace until it goes.
 */
export class NamespaceContents {
  readonly #context: WriteContext
  readonly #kinds: readonly Kind[]
  readonly #namespaces: Collection
  readonly #pending = new Set<string>()

  constructor(context: WriteContext, kinds: readonly Kind[]) {
    this.#context = context
    this.#kinds = kinds.filter((kind) => kind.resource.namespaced)
    this.#namespaces = context.store.collection(namespaceKind.resource.plural)
    this.#namespaces.subscribe(({ object }) => this.#look(object.metadata.name))
    for (const kind of this.#kinds) {
      context.store.collection(kind.resource.plural).subscribe((change) => {
        if (change.type === 'DELETED') this.#look(change.object.metadata.namespace ?? '')
      })
    }
  }

  /** The clock decides when, so that a write is never nested in another. */
  #look(name: string): void {
    if (this.#pending.has(name) || !isTerminating(this.#namespaces.get(name))) return
    this.#pending.add(name)
    const clock: Clock = this.#context.clock
    clock.schedule(0, () => {
      this.#pending.delete(name)
      this.#empty(name)
    })
  }

  #empty(namespace: string): void {
    const live = this.#namespaces.get(namespace)
    if (live === undefined || !isTerminating(live)) return
    let left = 0
    for (const kind of this.#kinds) {
      const collection = this.#context.store.collection(kind.resource.plural)
      for (const key of [...collection.keys(`${namespace}/`)]) {
        const name = key.slice(namespace.length + 1)
        const { gone } = deleteObject(
          this.#context,
          { kind, namespace, name },
          { gracePeriodSeconds: 0, dryRun: false },
        )
        if (!gone) left++
      }
    }
    if (left > 0 || (live.metadata.finalizers?.length ?? 0) > 0) return
    removeObject(namespaceKind, this.#namespaces, namespace, { ...live, spec: {} })
  }
}

function isTerminating(namespace: StoredObject | undefined): boolean {
  return namespace?.metadata.deletionTimestamp !== undefined
}
