import type { EndpointSlice, Endpoints } from '../../kube/resources.ts'
import type { Address } from '../../net/address.ts'
import type { EndpointPort } from '../identity.ts'

/**
 * Whether to correct ports that differ from those that this master wants. `agreed`: only if the reads in the same call
 * show that all members want the same ports.
 */
export type ReconcilePorts = boolean | 'agreed'

/** The objects of `default/kubernetes`. Watched ones may be old, but suffice to decide that nothing needs to change. */
export interface ObservedEndpoints {
  readonly endpoints: Endpoints | undefined
  readonly slice: EndpointSlice | undefined
  /** The slices that have the name of a second family's slice. */
  readonly secondSlices: readonly EndpointSlice[]
}

/**
 * `suffices`: whether guarded writes may be based on the watched slices, which saves a read. If not, the slices are
 * read, and the watched ones are used only if that fails.
 */
export interface WatchedList extends ObservedEndpoints {
  readonly suffices: boolean
}

/**
 * Decides which addresses `default/kubernetes` lists, and writes them, while this master runs.
 *
 * Calls of {@link reconcileEndpoints} never overlap, but {@link refreshMembers} may run beside one. A rejected call of
 * {@link reconcileEndpoints} is repeated: at once after each of the first three conflicts in a row, otherwise after a
 * growing delay of at most 1.5 s. After a permanent refusal, a change shortens that delay, but not below a quarter of a
 * second.
 */
export interface ListReconciler {
  /**
   * Announces this master, whose address is `ip`, and reconciles the Endpoints and their slices. `watched`: the objects
   * by their watches; undefined until the watches of the slices have synced.
   */
  reconcileEndpoints(
    ip: Address,
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
    watched?: WatchedList,
  ): Promise<void>
  /** Whether the cached objects need no change. Left out: every reconciliation calls {@link reconcileEndpoints}. */
  isSatisfied?(observed: ObservedEndpoints, ports: readonly EndpointPort[], reconcilePorts: boolean): boolean
  /** Reads the members from the store, for {@link isSatisfied}, {@link portsAgreed} and {@link isDualStack}. */
  refreshMembers?(signal: AbortSignal): Promise<void>
  /** Whether all members are known to want the same ports. Left out: true. */
  portsAgreed?(): boolean
  /**
   * Whether every member has an address of each family, so that the Service may have two families. Undefined when that
   * is unknown: the Service's families then stay as found. Left out: always unknown. `observed` is from the watches.
   */
  isDualStack?(observed: ObservedEndpoints): boolean | undefined
  /**
   * Whether {@link isDualStack} depends on the members. If so, they are read again before the families of the Service
   * are changed. @default true
   */
  readonly familiesFollowMembers?: boolean
}

/**
 * A reconciler that must itself remove this master from the list when the master stops (the reconciler `lease` leaves
 * that to its membership). Programs that embed this library may implement their own. Upstream: `EndpointReconciler` in
 * pkg/controlplane/reconcilers/reconcilers.go.
 */
export interface EndpointReconciler extends ListReconciler {
  /** Removes this master if it is listed. The list may become empty only after {@link stopReconciling}. */
  removeEndpoints(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<void>
  /**
   * Removes this master unless it is the last one that serves. Resolves with whether it left the list (or was not on
   * it), or stays listed as the last one. Left out: {@link removeEndpoints} is called instead. Called after
   * {@link stopReconciling}.
   */
  leave?(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<'left' | 'last-one'>
  /**
   * Removes the entry of an earlier life of this master, unless it is the last one. Returns whether it removed one.
   * Called at the start, while the master's API server is not ready. Left out: the entry stays.
   */
  clearAway?(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<boolean>
  /** Makes {@link reconcileEndpoints} do nothing from now on. */
  stopReconciling(): void
  destroy?(): Promise<void>
}

/** Leaves the Endpoints of `default/kubernetes` to others. Upstream: pkg/controlplane/reconcilers/none.go. */
export const noneReconciler: EndpointReconciler = {
  async reconcileEndpoints() {},
  async removeEndpoints() {},
  stopReconciling() {},
}
