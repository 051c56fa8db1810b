import { runWorkloadScenario } from './workload-scenario.ts'

// usage: node test/simulation/workload-replay.ts SEED: the cluster, what was done to it, every write, and what did not hold.

const { transcript, violations, digest, settledMs } = await runWorkloadScenario(Number(process.argv[2] ?? 1))
console.log([...transcript, ...violations, `right after ${settledMs} ms`, digest].join('\n'))
process.exitCode = violations.length > 0 ? 1 : 0
