/**
 * The public entry point for tests: an API server in this process, simulated time and randomness, failover drills,
 * checks of a cluster, and the contract of lease stores.
 */
import './runtime/system-node-guard.ts'

export {
  type ApiServer,
  type ApiServerOptions,
  createApiServer,
  inProcessReadiness,
  inProcessTransport,
} from './apiserver/api-server.ts'
export { type FaultRule, type Faults, faultyTransport } from './apiserver/faults.ts'
export { type StartApiServerOptions, type StartedApiServer, startApiServer } from './apiserver/http-start.ts'
export { ConditionNotMet, type ObjectReference, type WaitOptions } from './apiserver/wait-for.ts'
export type { DrillEvent } from './drill/event.ts'
export { randomScenario } from './drill/random/random-scenario.ts'
export { renderJunit } from './drill/report/junit.ts'
export { renderPage } from './drill/report/page/page.ts'
export type { DrillReport, Figures, RunReport, VariantReport } from './drill/report/report.ts'
export { renderText } from './drill/report/text.ts'
export { renderTranscript } from './drill/report/transcript.ts'
export { type DrillOptions, runDrill, type Variant } from './drill/run-drill.ts'
export { parseScenario } from './drill/scenario/parse.ts'
export type { Action, Bounds, FleetPlan, MasterPlan, Scenario, Step } from './drill/scenario/scenario.ts'
export { Fleet, type FleetOptions } from './drill/simulator/fleet.ts'
export type { Host, SimulatedMaster } from './drill/simulator/master.ts'
export type { DrillTarget, Primitive, TargetObserver } from './drill/target.ts'
export { type Random, seededRandom } from './runtime/random.ts'
export { type ClockView, VirtualClock } from './runtime/virtual-clock.ts'
export { memoryLogger } from './telemetry/logger.ts'
export type { CheckId } from './verify/cluster/check-ids.ts'
export type { Finding } from './verify/cluster/finding.ts'
export {
  type CheckResult,
  type VerifyClusterOptions,
  type VerifyReport,
  verifyCluster,
} from './verify/cluster/verify-cluster.ts'
export {
  type LeaseContractCase,
  type LeaseLifetime,
  type LeaseWorld,
  masterLeasesContract,
} from './verify/master-leases-contract.ts'
export type { MemberState } from './verify/member-state.ts'
export type { Listing, ObservedObjects, ObservedRequest } from './verify/observation.ts'
