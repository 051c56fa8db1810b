import { createApiServer, inProcessReadiness, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { faultyTransport } from '../../src/apiserver/faults.ts'
import { createMaster } from '../../src/bootstrap/master.ts'
import type { MasterPorts } from '../../src/bootstrap/master-options.ts'
import { defineMaster, type MasterSettings } from '../../src/config/master-options.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { leases } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { HolderState } from '../../src/kubernetes-service/leases/master-leases.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** An API server in this process, and masters beside it, on virtual time. */
export function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const server = createApiServer({ clock, random })
  const transport = faultyTransport(inProcessTransport(server), { clock, random })
  const api = restKubeApi({ transport, clock, random })
  const logger = memoryLogger()
  const ports: MasterPorts = {
    api,
    readiness: inProcessReadiness(server),
    clock,
    random,
    logger,
    metrics: prometheusMetrics(),
  }
  const logged = (message: string) => logger.lines.filter((line) => line.message === message)
  const start = (settings: Partial<MasterSettings> = {}, more: Partial<MasterPorts> = {}) => {
    const options = defineMaster({ advertiseAddress: '192.0.2.1', ...settings }, 'host-1')
    const stop = new AbortController()
    const master = createMaster(options, { ...ports, ...more })
    const ended = master.run(stop.signal)
    const end = async (): Promise<void> => {
      stop.abort()
      await time.advance(30_000)
      await ended
    }
    return { master, options, ended, end, stop }
  }
  return { time, server, transport, api, ports, logged, start, logger }
}

/** Stores the Lease of a master at 192.0.2.2 that does not run, beside that of a running, ready master at 192.0.2.1. */
export async function storeLeaseOfAnother(
  api: KubeApi,
  leaseDurationSeconds: number,
  state: HolderState = 'ready',
): Promise<void> {
  const [own] = (await api.list(leases)).items
  const { namespace = '', labels = {}, annotations } = own?.metadata ?? {}
  const record = annotations?.['apiserver-bootstrap/holder'] ?? ''
  const holder = record.replace('192.0.2.1', '192.0.2.2').replace('host-1', 'host-2').replace('"ready"', `"${state}"`)
  await api.create(leases, {
    metadata: { namespace, labels, name: 'another', annotations: { 'apiserver-bootstrap/holder': holder } },
    spec: { ...own?.spec, leaseDurationSeconds },
  })
}
