/** The public door for tests: an API server in this process, simulated time, and what makes both repeatable. */
export { type ApiServer, type ApiServerOptions, createApiServer } from './apiserver/api-server.ts'
export { faultyTransport } from './apiserver/faults.ts'
export { inProcessReadiness, inProcessTransport } from './apiserver/in-process.ts'
export { type Random, seededRandom } from './runtime/random.ts'
export { type ClockView, VirtualClock } from './runtime/virtual-clock.ts'
export { memoryLogger } from './telemetry/memory-logger.ts'
