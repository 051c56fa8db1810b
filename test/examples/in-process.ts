import { createMaster, defineMaster, prometheusMetrics, restKubeApi, silentLogger } from '../../src/index.ts'
import {
  createApiServer,
  inProcessReadiness,
  inProcessTransport,
  seededRandom,
  VirtualClock,
} from '../../src/testing.ts'

/** A whole cluster's bootstrap in a unit test: no server, no network, and time passes when you say so. */
export function simulatedMaster() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'my test')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  const readiness = inProcessReadiness(server)
  const ports = { api, readiness, clock, random, logger: silentLogger, metrics: prometheusMetrics() }
  return { time, ports, master: createMaster(defineMaster({ advertiseAddress: '192.0.2.1' }, 'host-1'), ports) }
}
