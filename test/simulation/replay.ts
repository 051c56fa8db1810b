import { runScenario } from './scenario.ts'

// usage: node test/simulation/replay.ts SEED: the fleet, what was done to it, and what did not hold.

const { schedule, violations, digest } = await runScenario(Number(process.argv[2] ?? 1))
console.log([...schedule, ...violations, digest].join('\n'))
process.exitCode = violations.length > 0 ? 1 : 0
