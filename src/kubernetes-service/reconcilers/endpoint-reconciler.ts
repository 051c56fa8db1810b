import type { EndpointSlice, Endpoints } from '../../kube/resources.ts'
import type { Address } from '../../net/address.ts'
import type { EndpointPort } from '../identity.ts'

/**
 * Whether ports that differ from those that a master wants are put right. `agreed`: only if no other member wants other ports, by what
 * is read in the same call.
 */
export type ReconcilePorts = boolean | 'agreed'

/** How a master left, or did not. */
export type Departure = 'left' | 'kept-the-last'

/** What the watches show of `default/kubernetes`: possibly old, good enough to see that nothing is to be done. */
export interface ObservedEndpoints {
  readonly endpoints: Endpoints | undefined
  readonly slice: EndpointSlice | undefined
  /**
   * The slice of the family that this master's address is not of. Undefined also with a reconciler that has no
   * {@link EndpointReconciler.isDualStack}.
   */
  readonly secondSlice?: EndpointSlice | undefined
}

/**
 * Decides which addresses `default/kubernetes` lists, and writes them. Programs that embed this library may bring their own.
 *
 * Calls never overlap. A rejected call is made again, at once after a conflict, else with a growing delay; after a refusal that lasts also as soon as
 * something changes, but not within a quarter of a second.
 * Upstream: `EndpointReconciler` in pkg/controlplane/reconcilers/reconcilers.go.
 */
export interface EndpointReconciler {
  /**
   * Makes this master known and the Endpoints and their slice right.
   *
   * @param ip - this master's address.
   * @param ports - the ports that this master wants.
   */
  reconcileEndpoints(
    ip: Address,
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
  ): Promise<void>
  /**
   * Takes this master out. Rejects with {@link LeaseNotFound} when it was not in. Only after {@link stopReconciling} may the
   * list become empty.
   */
  removeEndpoints(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<void>
  /**
   * Takes this master out unless it is the last one that serves. Left out: {@link removeEndpoints} is called instead.
   * Called after {@link stopReconciling}.
   */
  leave?(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<Departure>
  /**
   * Takes out what an earlier life of this master left, unless it is the last. Whether there was something to take out. Called at
   * the start, while the master's API server is not ready. Left out: what was left stays.
   */
  clearAway?(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<boolean>
  /** From now on {@link reconcileEndpoints} does nothing. */
  stopReconciling(): void
  /** Gives back what the reconciler holds. */
  destroy(): Promise<void>
  /**
   * Whether the reconciler would change nothing, as far as a cache can tell. Left out: every look calls
   * {@link reconcileEndpoints}.
   */
  isSatisfied?(observed: ObservedEndpoints, ports: readonly EndpointPort[], reconcilePorts: boolean): boolean
  /** Reads who the members are from the store, for {@link isSatisfied} and {@link portsAgreed} to judge by. */
  readMembers?(signal: AbortSignal): Promise<void>
  /** Whether no other member wants other ports. Left out: nobody does. */
  portsAgreed?(): boolean
  /**
   * Whether every member has an address of each family, so that the Service may have two families; undefined when that is not known.
   * Left out: it never is. What is not known leaves the Service's families as they are found.
   */
  isDualStack?(): boolean | undefined
}

/** Leaves the Endpoints of `default/kubernetes` to somebody else. Upstream: pkg/controlplane/reconcilers/none.go. */
export const noneReconciler: EndpointReconciler = {
  async reconcileEndpoints() {},
  async removeEndpoints() {},
  stopReconciling() {},
  async destroy() {},
  isSatisfied: () => true,
}
