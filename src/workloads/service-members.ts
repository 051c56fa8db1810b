import type { Change, Followed } from '../kube/informer.ts'
import type { Pod, Service } from '../kube/resources.ts'
import { keyOfObject, objectOf } from '../kube/store.ts'
import { getOrMake } from '../runtime/memo.ts'
import { isEndpointChange } from './pod-rules.ts'
import { type Labels, matches, SelectorIndex, sameLabels } from './selector-index.ts'

export interface ServiceMembersOptions {
  readonly services: Followed<Service>
  readonly pods: Followed<Pod>
}

class Member {
  pod: Pod

  constructor(pod: Pod) {
    this.pod = pod
  }

  get labels(): Labels | undefined {
    return this.pod.metadata?.labels
  }
}

interface Group {
  readonly key: string
  readonly selector: Labels
  readonly members: Set<Member>
}

/** Selectors do not cross namespaces. */
interface Namespace {
  /** The Pods of the namespace, by name. */
  readonly members: Map<string, Member>
  readonly index: SelectorIndex<Group, Member>
}

/**
 * Maintains the set of Pods that each Service selects, at every change of a Pod or a Service. It must subscribe before
 * any controller does, so that handlers and syncs see the same state here as in the informers' stores.
 *
 * A Service without a selector and one of type ExternalName select nothing. One with an empty selector selects all Pods
 * of its namespace; kube-apiserver stores no such Service, because it drops an empty selector.
 */
export class ServiceMembers {
  readonly #namespaces = new Map<string, Namespace>()
  readonly #groups = new Map<string, Group>()
  readonly #handlers = new Set<(key: string) => void>()

  constructor(options: ServiceMembersOptions) {
    options.services.subscribe((change) => this.#serviceChanged(change))
    options.pods.subscribe((change) => this.#podChanged(change))
  }

  /** The Pods that a Service selects, in the order in which it began to select them. */
  podsOf(service: Service): readonly Pod[] {
    return Array.from(this.#groups.get(keyOfObject(service))?.members ?? [], ({ pod }) => pod)
  }

  /**
   * Calls `handler` with the key (`namespace/name`) of each Service whose endpoints a change of a Pod may change.
   * Upstream's `GetPodUpdateProjectionKey` and `GetServicesToUpdate` find these Services, except those of an unready
   * Pod that ends. Changes of Services themselves are not reported. Returns a function that ends the subscription.
   */
  subscribe(handler: (key: string) => void): () => void {
    const own = (key: string): void => handler(key)
    this.#handlers.add(own)
    return () => {
      this.#handlers.delete(own)
    }
  }

  #serviceChanged(change: Change<Service>): void {
    const service = objectOf(change)
    const key = keyOfObject(service)
    const selector = change.type === 'deleted' ? undefined : selectorOf(service)
    const old = this.#groups.get(key)
    if (old !== undefined && selector !== undefined && sameLabels(old.selector, selector)) return
    const namespace = service.metadata?.namespace ?? ''
    const { index } = this.#namespace(namespace)
    // The new selector is added before the old one is removed, so that a shared key need not be indexed again.
    if (selector !== undefined) {
      const group: Group = { key, selector, members: new Set() }
      this.#groups.set(key, group)
      index.addSelector(group)
      for (const member of index.matching(group)) group.members.add(member)
    } else {
      this.#groups.delete(key)
    }
    if (old !== undefined) index.deleteSelector(old)
    this.#dropIfEmpty(namespace)
  }

  #podChanged(change: Change<Pod>): void {
    const pod = objectOf(change)
    const { namespace = '', name = '' } = pod.metadata ?? {}
    const { members, index } = this.#namespace(namespace)
    const known = members.get(name)
    if (known === undefined) {
      if (change.type !== 'deleted') this.#podAdded(pod, name, members, index)
    } else if (change.type === 'deleted') {
      const groups = index.selecting(known.labels)
      members.delete(name)
      index.delete(known)
      for (const group of groups) group.members.delete(known)
      this.#notify(groups)
    } else {
      this.#podUpdated(known, pod, index)
    }
    this.#dropIfEmpty(namespace)
  }

  #podAdded(pod: Pod, name: string, members: Map<string, Member>, index: SelectorIndex<Group, Member>): void {
    const member = new Member(pod)
    members.set(name, member)
    index.add(member)
    const groups = index.selecting(member.labels)
    for (const group of groups) group.members.add(member)
    this.#notify(groups)
  }

  #podUpdated(member: Member, pod: Pod, index: SelectorIndex<Group, Member>): void {
    const old = member.pod
    const changed = isEndpointChange(old, pod)
    if (sameLabels(member.labels, pod.metadata?.labels)) {
      member.pod = pod
      if (changed) this.#notify(index.selecting(member.labels))
      return
    }
    const before = index.selecting(member.labels)
    const hadLabels = !sameLabels(member.labels, undefined)
    index.delete(member)
    member.pod = pod
    index.add(member)
    const after = index.selecting(member.labels)
    const left = before.filter(({ selector }) => !matches(selector, member.labels))
    for (const group of left) group.members.delete(member)
    const joined = after.filter(({ members }) => !members.has(member))
    for (const group of joined) group.members.add(member)
    // Upstream treats a Pod that had no labels as one whose labels did not change, and reports all Services that select
    // it now.
    this.#notify([...left, ...(changed || !hadLabels ? after : joined)])
  }

  #namespace(name: string): Namespace {
    return getOrMake(this.#namespaces, name, () => {
      const members = new Map<string, Member>()
      return { members, index: new SelectorIndex(() => members.values()) }
    })
  }

  #dropIfEmpty(name: string): void {
    const namespace = this.#namespaces.get(name)
    if (namespace?.members.size === 0 && namespace.index.size === 0) this.#namespaces.delete(name)
  }

  #notify(groups: readonly Group[]): void {
    for (const handler of [...this.#handlers]) for (const { key } of groups) handler(key)
  }
}

function selectorOf(service: Service): Labels | undefined {
  if (service.spec?.type === 'ExternalName') return undefined
  return service.spec?.selector ?? undefined
}
