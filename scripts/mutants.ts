import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { randomInteger, seededRandom } from '../src/runtime/random.ts'
import { testedMutants } from '../test/mutants/list.ts'
import type { TestedMutant } from '../test/mutants/mutant.ts'
import { SourceCopy } from '../test/mutants/source-copy.ts'
import { parseArguments, wholeNumber } from './command.ts'

// usage: node scripts/mutants.ts [--list] [--only NAME …] [--from NAME] [--sample COUNT [--seed TEXT]] [--jobs 2]
//   [--limit SECONDS]
// Puts one mutant at a time into a copy of the sources, and runs the test files that must notice it. Exits with 1 if a
// mutant is not noticed. With --list it only names the mutants that it would try.

type Named = readonly [name: string, mutant: TestedMutant]

const { values: options } = parseArguments({
  options: {
    list: { type: 'boolean' },
    only: { type: 'string', multiple: true },
    from: { type: 'string' },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    limit: { type: 'string', default: '180' },
  },
})
const limitMs = 1000 * wholeNumber('limit', options.limit)
const jobs = wholeNumber('jobs', options.jobs)
const all = await testedMutants()
// `--from` is applied after the drawing, so that it does not change what a seed draws.
const chosen = begunAt(sampled(named([...all])))
if (options.list) {
  for (const [name, { file, broken }] of chosen) console.log(`${name}  src/${file}: ${broken}`)
  process.exit()
}
const queue = chosen.values()
const total = { noticed: 0, 'not noticed': 0, 'out of time': 0 }
const faults: string[] = []
/** By folder of src/: the number of mutants, and how many of them were noticed or ran out of time. */
const folders = new Map<string, { noticed: number; all: number }>()

// Each test run is a process group of its own, which Ctrl-C in a terminal does not stop, nor the end of this process.
const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)))

await Promise.all(Array.from({ length: Math.min(jobs, chosen.length) }, () => work()))
console.log(
  `mutants: ${total.noticed} noticed, ${total['out of time']} out of time, ${total['not noticed']} not noticed, ${faults.length} faults, of ${chosen.length}`,
)
for (const [folder, { noticed, all }] of [...folders].sort(([a], [b]) => (a < b ? -1 : 1))) {
  console.log(`${`${noticed}/${all}`.padStart(7)}  ${folder}`)
}
if (stop.signal.aborted) faults.push(stop.signal.reason.message)
for (const fault of faults) console.error(`✖ ${fault}`)
if (faults.length > 0 || total['not noticed'] > 0) process.exitCode = 1

/** One job: takes mutants from the shared queue, and tries them in its own copy of the sources. */
async function work(): Promise<void> {
  const copy = await SourceCopy.make(stop.signal)
  /** Test files that pass without a mutant. A test that always fails would seem to notice every mutant. */
  const sound = new Set<string>()
  try {
    for (const [name, mutant] of queue) {
      try {
        await proveSound(copy, mutant.tests, sound)
        const { type, failed } = await copy.try(mutant, limitMs)
        total[type]++
        count(mutant.file, type !== 'not noticed')
        const details = type === 'not noticed' ? survival(name, mutant) : failed
        console.log(
          `${type === 'not noticed' ? '✖' : '✔'} ${name} (${type})${details.map((line) => `\n    ${line}`).join('')}`,
        )
      } catch (error) {
        if (stop.signal.aborted) return
        faults.push(`${name}: ${error instanceof Error ? error.message : error}`)
      }
    }
  } finally {
    await copy.remove()
  }
}

/** What survived, what should have noticed it, and how to try it again. */
function survival(name: string, { file, broken, tests }: TestedMutant): readonly string[] {
  return [
    `src/${file}: ${broken}`,
    ...tests.map((test) => `test/${test} passes`),
    `again: npm run test:mutants -- --only ${name}`,
  ]
}

function count(file: string, isNoticed: boolean): void {
  const [folder = ''] = file.split('/', 1)
  const { noticed, all } = folders.get(folder) ?? { noticed: 0, all: 0 }
  folders.set(folder, { noticed: noticed + (isNoticed ? 1 : 0), all: all + 1 })
}

async function proveSound(copy: SourceCopy, tests: readonly string[], sound: Set<string>): Promise<void> {
  const unproved = tests.filter((file) => !sound.has(file))
  if (unproved.length === 0) return
  for (const file of unproved) {
    if (!existsSync(join(copy.directory, 'test', file))) throw new Error(`there is no test/${file}`)
  }
  const { type, output } = await copy.run(unproved, limitMs)
  if (type === 'out of time') throw new Error(`without it its tests take longer than ${limitMs / 1000} s\n${output}`)
  if (type === 'noticed') throw new Error(`its tests fail without it\n${output}`)
  for (const file of unproved) sound.add(file)
}

function named(mutants: readonly Named[]): readonly Named[] {
  const { only } = options
  if (only === undefined) return mutants
  for (const name of only) checkName(name)
  return mutants.filter(([name]) => only.includes(name))
}

function checkName(name: string): void {
  if (!all.has(name)) fail(`no mutant is named ${name}; --list names them`)
}

function begunAt(mutants: readonly Named[]): readonly Named[] {
  const { from } = options
  if (from === undefined) return mutants
  const first = mutants.findIndex(([name]) => name === from)
  checkName(from)
  if (first < 0) fail(`${from} is not among the mutants that are chosen`)
  return mutants.slice(first)
}

/** `--sample` mutants, drawn by the seed, in the order of the list; without `--sample`, all. */
function sampled(mutants: readonly Named[]): readonly Named[] {
  if (options.sample === undefined) return mutants
  const random = seededRandom(1, options.seed)
  const left = [...mutants]
  const drawn = new Set<Named>()
  for (let count = wholeNumber('sample', options.sample); count > 0 && left.length > 0; count--) {
    for (const one of left.splice(randomInteger(random, left.length), 1)) drawn.add(one)
  }
  return mutants.filter((one) => drawn.has(one))
}

function fail(reason: string): never {
  console.error(`✖ ${reason}`)
  process.exit(2)
}
