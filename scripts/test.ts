import { rmSync } from 'node:fs'
import { glob, mkdtemp, readFile, stat, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, matchesGlob, relative, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import { finished } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { bundleCommandLine } from './bundle.ts'
import { parseArguments, root } from './command.ts'
import { ensurePeers } from './peers.ts'

// usage: node scripts/test.ts unit|floor|real|long [--test-name-pattern PATTERN] [FILE|DIRECTORY …]

interface Tier {
  /** Each of these patterns must find a file. */
  readonly files: readonly string[]
  readonly except: readonly string[]
  readonly concurrency: number
  /** Files that change nothing of their process. Several of them share one, because most of their time is its start. */
  readonly sharing?: string
  /** Files that judge how soon something happens. Two run at a time; the others run beside them at the lowest priority. */
  readonly timed?: readonly string[]
  readonly testTimeoutMs: number
  readonly tierTimeoutMs: number
  readonly needsPeers: boolean
  readonly execArgv?: readonly string[]
}

const minute = 60_000
/** Files that took so long are named at the end. */
const SLOW_MS = 20_000
const inProcess = {
  // One more than there are processors: at any time one of the files waits for a time limit to pass.
  concurrency: availableParallelism() + 1,
  // The random schedules take 20 s on a quiet machine; a busy one must not fail them.
  testTimeoutMs: 4 * minute,
  // No hung test takes so long: each has its own limit. A machine that others use must not fail them.
  tierTimeoutMs: 30 * minute,
  needsPeers: false,
}
const withPeers = { testTimeoutMs: 5 * minute, tierTimeoutMs: 60 * minute, needsPeers: true }
/** With more files at a time the pauses of the machine look like faults of the program. */
const TIMED_CONCURRENCY = 2
/** So many files take what the timed ones leave of two processors, which is nearly one. */
const BACKGROUND_CONCURRENCY = 2
/** So many files share a process. */
const SHARING = 8

const tiers: Readonly<Record<string, Tier>> = {
  unit: {
    files: ['test/**/*.test.ts'],
    except: ['test/{real,long,bench,floor}/**'],
    sharing:
      'test/{apiserver,bootstrap,config,documents,drill/{report,scenario,simulator},endpoints,endpointslice,etcd,kube,kubernetes-service,lifecycle,namespaces,net,protobuf,repair,runtime,service-cidr,upstream,verify,workloads}/**',
    ...inProcess,
  },
  floor: {
    files: [
      'test/simulation/**/*.test.ts',
      'test/drill/{random-schedules,mutants}.test.ts',
      'test/drill/scenario/built-in.test.ts',
      'test/model/model.test.ts',
      'test/apiserver/fuzz.test.ts',
      'test/floor/*.test.ts',
    ],
    except: [],
    ...inProcess,
  },
  real: {
    files: ['test/real/**/*.test.ts'],
    except: [],
    // Most of a file is waiting.
    concurrency: 4,
    timed: [
      'test/real/{fault-matrix,fleet*,drill-*,members,outage*,shutdown,credentials,etcd-*,flow-control,sidecar-kit*,testing-*}.test.ts',
    ],
    ...withPeers,
  },
  long: {
    files: ['test/long/**/*.test.ts'],
    except: [],
    ...withPeers,
    concurrency: 1,
    testTimeoutMs: 75 * minute,
    tierTimeoutMs: 180 * minute,
    // The explorer remembers millions of sidecars.
    execArgv: ['--max-old-space-size=5000'],
  },
}

const { values: options, positionals } = parseArguments({
  allowPositionals: true,
  options: { 'test-name-pattern': { type: 'string', multiple: true } },
})
const [tierName = '', ...paths] = positionals
const tier = tiers[tierName]
if (tier === undefined) {
  console.error(
    `usage: node scripts/test.ts ${Object.keys(tiers).join('|')} [--test-name-pattern PATTERN] [FILE|DIRECTORY …]`,
  )
  process.exit(2)
}
process.chdir(root)

const patterns = paths.length > 0 ? await Promise.all(paths.map(patternOf)) : tier.files
const found = await Promise.all(patterns.map((pattern) => filesOf(pattern, paths.length > 0 ? [] : tier.except)))
const missing = patterns.filter((_, index) => found[index]?.length === 0)
if (missing.length > 0) fail(`no test file in ${missing.join(', ')}`)
// These take longest: begun first, they do not run on alone at the end.
const LONGEST = /^test\/(?:simulation\/|drill\/random-|commands\/hostile-|telemetry\/h)/
const rank = (file: string): string => `${LONGEST.test(file) ? 0 : 1} ${file}`
const files = [...new Set(found.flat())].sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
if (tier.needsPeers && !(await ensurePeers({ forLong: tierName === 'long' }))) process.exit(1)

// Most of what a short file costs is to compile what it imports. The other tiers run the built program, which is to find its own cache.
if (!tier.needsPeers) process.env.NODE_COMPILE_CACHE ??= resolve('node_modules/.cache/compiled')
// Read by test/support/tier.ts.
process.env.TEST_TIER = tierName
const ownDirectory = await mkdtemp(join(root, 'dist.test-'))
process.once('exit', () => rmSync(ownDirectory, { recursive: true, force: true }))
if (files.some((file) => file.startsWith('test/commands/'))) process.env.TEST_PROGRAM = await bundledProgram()
const problems: string[] = []
const overall = AbortSignal.timeout(tier.tierTimeoutMs)
// Whoever ends this process alone, and not its group as a terminal does, ends the tests, and these what they have started.
const interrupted = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => {
    problems.push(`interrupted by ${name}`)
    interrupted.abort()
  })
}
const startedAt = performance.now()
const timed = files.filter((file) => tier.timed?.some((pattern) => matchesGlob(file, pattern)))
const sharing = paths.length > 0 || tier.sharing === undefined ? [] : await ownersOfTests(files, tier.sharing)
/** The files that one process runs, by the module that imports them. */
const shared = new Map<string, readonly string[]>()
for (let from = 0; from < sharing.length; from += SHARING) {
  const module = join(ownDirectory, `files-${from}.test.ts`)
  const imported = sharing.slice(from, from + SHARING)
  await writeFile(module, imported.map((file) => `import ${JSON.stringify(resolve(file))}\n`).join(''))
  shared.set(inRoot(module), imported)
}
const rest = [...files.filter((file) => !timed.includes(file) && !sharing.includes(file)), ...shared.keys()]
const durations: { readonly file: string; readonly ms: number }[] = []
/** The files of which a test has ended. */
const tested = new Set<string>()
const total = { ran: 0, passed: 0, failed: 0 }
if (timed.length === 0) await runFiles(rest, tier.concurrency)
else {
  const inForeground = runFiles(timed, TIMED_CONCURRENCY)
  await Promise.all([inForeground, ...(rest.length > 0 ? [runFiles(rest, BACKGROUND_CONCURRENCY, inForeground)] : [])])
}
for (const file of sharing) if (!tested.has(file)) problems.push(`no test in ${file}`)
if (total.ran === 0) problems.push('no test ran')
if (overall.aborted) problems.push(`not done within ${tier.tierTimeoutMs / minute} minutes`)
for (const problem of problems) console.error(`✖ ${problem}`)
if (problems.length > 0) process.exitCode = 1
const slow = durations.filter(({ ms }) => ms >= SLOW_MS).sort((a, b) => b.ms - a.ms)
for (const { file, ms } of slow) console.log(`${(ms / 1000).toFixed(0).padStart(5)} s  ${file}`)
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
console.log(`${tierName}: ${total.passed} passed, ${total.failed} failed, ${files.length} files, ${seconds} s`)

/**
 * Runs test files, prints their results, and adds up {@link total}. With `inForeground`, the run of other files, these
 * run at the lowest priority, and their results are printed after those.
 */
async function runFiles(some: readonly string[], concurrency: number, inForeground?: Promise<void>): Promise<void> {
  const modules = ['test/support/leaks.ts', ...(inForeground !== undefined ? ['test/support/lowest-priority.ts'] : [])]
  const tests = run({
    files: some.map((file) => resolve(file)),
    concurrency,
    timeout: tier?.testTimeoutMs,
    // Not forceExit, which loses results on their way here: leaks.ts ends a process that something keeps alive.
    execArgv: [...modules.flatMap((module) => ['--import', resolve(module)]), ...(tier?.execArgv ?? [])],
    signal: AbortSignal.any([overall, interrupted.signal]),
    ...(options['test-name-pattern'] && { testNamePatterns: options['test-name-pattern'] }),
  })
  tests.on('test:pass', ({ name, file, skip, todo }) => {
    if (skip !== undefined || todo !== undefined) problems.push(`skipped or todo: ${name} (${inRoot(file)})`)
  })
  for (const end of ['test:pass', 'test:fail'] as const) tests.on(end, ({ file }) => void tested.add(inRoot(file)))
  // A file without a test, or without one that the pattern names, counts as a test that passed: those are not ours.
  let withoutTests = 0
  tests.on('test:summary', ({ file, counts, success, duration_ms }) => {
    if (file !== undefined) {
      const together = shared.get(inRoot(file))
      durations.push({ file: together?.join(' ') ?? inRoot(file), ms: duration_ms })
      if (!success && together !== undefined)
        problems.push(`a failure in ${inRoot(file)}, which runs ${together.join(' ')}`)
      if (counts.tests > 0) return
      withoutTests++
      if (!options['test-name-pattern']) problems.push(`no test in ${inRoot(file)}`)
      return
    }
    if (!success) process.exitCode = 1
    const ran = counts.tests - withoutTests
    const passed = counts.passed - withoutTests
    total.ran += ran
    total.passed += passed
    total.failed += ran - passed - counts.skipped - counts.todo
  })
  const results = tests.compose(new spec()).pipe(new PassThrough({ highWaterMark: Number.MAX_SAFE_INTEGER }))
  const print = (): void => void results.pipe(process.stdout, { end: false })
  if (inForeground === undefined) print()
  else void inForeground.then(print, print)
  await finished(results)
}

/** From its sources the program needs three times as long to start: most of that is the Kubernetes client's thousand modules. */
async function bundledProgram(): Promise<string> {
  await bundleCommandLine(ownDirectory)
  return join(ownDirectory, 'cli.js')
}

async function filesOf(pattern: string, except: readonly string[]): Promise<string[]> {
  const files = await Array.fromAsync(glob(pattern))
  return files.filter((file) => !except.some((excepted) => matchesGlob(file, excepted)))
}

/** Those of the files that declare tests themselves, so that the results name them, and not only by a helper. */
async function ownersOfTests(some: readonly string[], pattern: string): Promise<string[]> {
  const matching = some.filter((file) => matchesGlob(file, pattern))
  const texts = await Promise.all(matching.map((file) => readFile(file, 'utf8')))
  return matching.filter((_, index) => /^ *test\(/m.test(texts[index] ?? ''))
}

async function patternOf(path: string): Promise<string> {
  const isDirectory = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
  return isDirectory ? `${path.replace(/\/$/, '')}/**/*.test.ts` : path
}

function inRoot(file: string | undefined): string {
  return file === undefined ? '?' : relative(root, file)
}

function fail(reason: string): never {
  console.error(`✖ ${reason}`)
  process.exit(1)
}
