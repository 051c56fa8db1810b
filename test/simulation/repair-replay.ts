import { runRepairScenario } from './repair-scenario.ts'

// usage: node test/simulation/repair-replay.ts SEED: prints the cluster, the steps, every write and the violations.

const { schedule, transcript, violations, digest, coverage } = await runRepairScenario(Number(process.argv[2] ?? 1))
const [cluster = '', ...done] = schedule
const all = [...done.map((line) => `${line}  <--`), ...transcript].sort(
  (a, b) => Number.parseFloat(a) - Number.parseFloat(b),
)
const races = [...coverage.counts].map(([race, count]) => `${count} x ${race}`)
console.log([cluster, ...all, ...races, ...violations, digest].join('\n'))
process.exitCode = violations.length > 0 ? 1 : 0
