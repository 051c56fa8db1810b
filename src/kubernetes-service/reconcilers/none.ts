import type { EndpointReconciler } from './endpoint-reconciler.ts'

/** Leaves the Endpoints of `default/kubernetes` to somebody else. Upstream: pkg/controlplane/reconcilers/none.go. */
export const noneReconciler: EndpointReconciler = {
  async reconcileEndpoints() {},
  async removeEndpoints() {},
  stopReconciling() {},
  async destroy() {},
  isSatisfied: () => true,
}
