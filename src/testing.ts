/** The public door for tests: an API server in this process, simulated time, what makes both repeatable, and failover drills, and the contract of lease stores. */
export { type ApiServer, type ApiServerOptions, createApiServer } from './apiserver/api-server.ts'
export { faultyTransport } from './apiserver/faults.ts'
export { inProcessReadiness, inProcessTransport } from './apiserver/in-process.ts'
export type { DrillEvent } from './drill/event.ts'
export { parseScenario } from './drill/parse-scenario.ts'
export { randomScenario } from './drill/random/random-scenario.ts'
export { renderJunit } from './drill/report/junit.ts'
export { renderPage } from './drill/report/page.ts'
export { renderText } from './drill/report/text.ts'
export { renderTranscript } from './drill/report/transcript.ts'
export type { DrillReport, Figures, RunReport, VariantReport } from './drill/report.ts'
export { type DrillOptions, runDrill, type Variant } from './drill/run-drill.ts'
export type { Action, Bounds, FleetPlan, MasterPlan, Scenario, Step } from './drill/scenario.ts'
export { Fleet, type FleetOptions } from './drill/simulator/fleet.ts'
export type { Host, SimulatedMaster } from './drill/simulator/master.ts'
export { type Random, seededRandom } from './runtime/random.ts'
export { type ClockView, VirtualClock } from './runtime/virtual-clock.ts'
export { memoryLogger } from './telemetry/memory-logger.ts'
export {
  type LeaseContractCase,
  type LeaseLifetime,
  type LeaseWorld,
  masterLeasesContract,
} from './verify/master-leases-contract.ts'
