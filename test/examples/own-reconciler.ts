import { createMaster, defineMaster, type EndpointReconciler, type MasterPorts } from '../../src/index.ts'

/** Updates a load balancer through its API instead of writing Endpoints. */
class LoadBalancerReconciler implements EndpointReconciler {
  readonly backends = new Set<string>()

  async reconcileEndpoints(ip: { readonly text: string }): Promise<void> {
    this.backends.add(ip.text)
  }

  async removeEndpoints(ip: { readonly text: string }): Promise<void> {
    this.backends.delete(ip.text)
  }

  stopReconciling(): void {}

  async destroy(): Promise<void> {}
}

export function behindLoadBalancer(ports: MasterPorts) {
  const reconciler = new LoadBalancerReconciler()
  const options = defineMaster({ advertiseAddress: '192.0.2.1', onShutdown: 'always' }, 'host-1')
  return { reconciler, master: createMaster(options, { ...ports, reconciler }) }
}
