import { runWorkloadScenario } from './workload-scenario.ts'

// usage: node test/simulation/workload-replay.ts SEED: prints the cluster, the steps, every write and the violations.

const { transcript, violations, digest, settledMs } = await runWorkloadScenario(Number(process.argv[2] ?? 1))
console.log([...transcript, ...violations, `right after ${settledMs} ms`, digest].join('\n'))
process.exitCode = violations.length > 0 ? 1 : 0
