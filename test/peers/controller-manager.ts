import type { Apiserver } from './apiserver.ts'
import { binary } from './binaries.ts'
import { type Owner, temporaryDirectory } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

/** The controllers of kube-controller-manager that manage Endpoints and EndpointSlices. */
export const endpointControllers = [
  'endpoints-controller',
  'endpointslice-controller',
  'endpointslice-mirroring-controller',
] as const

/**
 * Starts kube-controller-manager with only these controllers, and with more `flags`. Resolves when the caches of each
 * controller are synced.
 */
export function startControllerManager(
  owner: Owner,
  server: Pick<Apiserver, 'kubeconfig'>,
  controllers: readonly string[] = endpointControllers,
  flags: readonly string[] = [],
): Promise<RunningProcess> {
  const directory = temporaryDirectory(owner, 'controller-manager')
  return startOnFreePorts(async () => {
    const running = await RunningProcess.start(owner, {
      name: 'kube-controller-manager',
      command: binary('kube-controller-manager'),
      args: [
        `--kubeconfig=${server.kubeconfig}`,
        `--controllers=${controllers.join(',')}`,
        '--leader-elect=false',
        '--bind-address=127.0.0.1',
        `--secure-port=${await freePort()}`,
        `--cert-dir=${directory}`,
        '--kube-api-qps=1000',
        '--kube-api-burst=2000',
        ...flags,
      ],
    })
    const started = (): number => running.lines.filter((line) => line.includes('Caches are synced')).length
    try {
      await running.whenReady(async () => started() >= controllers.length, 60_000)
    } catch (error) {
      await running.kill()
      throw error
    }
    return running
  })
}
