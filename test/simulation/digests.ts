import { runScenario } from './scenario.ts'

// usage: node test/simulation/digests.ts FIRST LAST: one line for each seed, its number and the digest of its run.

const [first, last] = process.argv.slice(2).map(Number)
const lines: string[] = []
for (let seed = first ?? 1; seed <= (last ?? 1); seed++) lines.push(`${seed} ${(await runScenario(seed)).digest}`)
console.log(lines.join('\n'))
