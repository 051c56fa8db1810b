import { readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { measureDamage } from '../test/bench/damage.ts'
import { measureEmbedded } from '../test/bench/embedded.ts'
import { measureEndlessAnswers } from '../test/bench/endless.ts'
import { measureFlood } from '../test/bench/flood.ts'
import { measureMemory } from '../test/bench/memory.ts'
import { measureRepairCore } from '../test/bench/repair-core.ts'
import { measureRepairDamage } from '../test/bench/repair-damage.ts'
import { measureRepairMass } from '../test/bench/repair-mass.ts'
import { measureRepairStalls } from '../test/bench/repair-stalls.ts'
import { isMet, markdown, type Report } from '../test/bench/report.ts'
import { measureStartup, requireBuild } from '../test/bench/startup.ts'
import { measureVerify } from '../test/bench/verify.ts'
import { measureWorkloadChanges } from '../test/bench/workload-changes.ts'
import { measureWorkloadGrowth, measureWorkloads } from '../test/bench/workloads.ts'
import { parseArguments, root } from './command.ts'
import { ensurePeers } from './peers.ts'

// usage: node scripts/bench.ts [SECTION...] [--rounds N] [--minutes N] [--write]; without SECTION, all sections.
// Measures the build and, in the same run, a floor or a peer to compare it with. Exits with 1 if a bound is exceeded.
// --write replaces the tables of the measured sections in docs/bench.md.

const { values, positionals } = parseArguments({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    minutes: { type: 'string', default: '10' },
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const rounds = (usual: number): number => positive(values.rounds ?? String(usual))
const benches: Readonly<Record<string, () => Promise<Report>>> = {
  startup: () => measureStartup({ rounds: rounds(20) }),
  damage: () => measureDamage({ rounds: rounds(10) }),
  flood: () => measureFlood({ seconds: 20 }),
  'endless-answers': () => measureEndlessAnswers({ seconds: 20 }),
  memory: () => measureMemory({ minutes: positive(values.minutes) }),
  'repair-core': () => measureRepairCore({ rounds: rounds(5) }),
  'repair-stalls': () => measureRepairStalls({ rounds: rounds(3) }),
  'repair-mass': () => measureRepairMass({ minutes: positive(values.minutes) }),
  'repair-damage': () => measureRepairDamage({ rounds: rounds(10) }),
  embedded: () => measureEmbedded({ rounds: rounds(20) }),
  endpoints: () => measureWorkloads({ rounds: rounds(3) }),
  changes: () => measureWorkloadChanges({ rounds: rounds(3) }),
  verify: () => measureVerify({ rounds: rounds(5) }),
  'endpoints-growth': () => measureWorkloadGrowth({ rounds: rounds(3) }),
}

const sections = Object.keys(benches)
const usage = `usage: npm run bench -- ${sections.map((name) => `[${name}]`).join(' ')} [--rounds N] [--minutes N] [--write]`

const chosen = positionals.length > 0 ? positionals : sections
if (values.help) {
  console.log(usage)
  process.exit(0)
}
if (chosen.some((name) => benches[name] === undefined)) {
  console.error(usage)
  process.exit(2)
}
requireBuild()
if (!(await ensurePeers())) process.exit(1)

const reports: Report[] = []
for (const name of chosen) {
  const report = await benches[name]?.()
  if (report === undefined) continue
  console.log(markdown(report))
  reports.push(report)
}
if (values.write) await writeReports(reports)
process.exitCode = reports.every((report) => report.bounds.every(isMet)) ? 0 : 1

/** Writes docs/bench.md. Sections that were not measured in this run stay as they are. */
async function writeReports(reports: readonly Report[]): Promise<void> {
  const intro = `# Bench\n\nWritten by \`npm run bench -- --write\`, on ${availableParallelism()} cores with Node ${process.versions.node}. The peers are Kubernetes 1.36.3 and etcd 3.6.8.\n\n`
  const file = resolve(root, 'docs/bench.md')
  const [, ...known] = (await readFile(file, 'utf8')).split(/^(?=## )/m)
  const sections = new Map([...known, ...reports.map(markdown)].map((text) => [text.split('\n', 1)[0], text.trim()]))
  await writeFile(file, `${intro}${[...sections.values()].join('\n\n')}\n`)
}

function positive(text: string): number {
  const number = Number(text)
  if (number > 0) return number
  console.error(usage)
  process.exit(2)
}
