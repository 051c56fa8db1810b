import { rmSync } from 'node:fs'
import { glob, mkdtemp, readFile, stat, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, matchesGlob, relative, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundleCommandLine } from './bundle.ts'
import { parseArguments, root } from './command.ts'
import { IdleProcessors } from './idle-processors.ts'
import { ensurePeers } from './peers.ts'

// usage: node scripts/test.ts unit|floor|real|long [--test-name-pattern PATTERN] [FILE|DIRECTORY …]

interface Tier {
  /** Patterns, each of which must match a file. */
  readonly files: readonly string[]
  readonly except: readonly string[]
  /** How many files run at the same time; with peers, at most. */
  readonly concurrency: number
  /**
   * A pattern of files that change no global state of their process. Several of them share one process, because its
   * start takes most of their time.
   */
  readonly sharing?: string
  readonly testTimeoutMs: number
  readonly tierTimeoutMs: number
  readonly needsPeers: boolean
  readonly execArgv?: readonly string[]
}

interface Result {
  readonly ran: number
  readonly passed: number
  readonly failed: number
  readonly success: boolean
  readonly problems: readonly string[]
}

const minute = 60_000
/** Files that took at least this long are listed at the end. */
const SLOW_MS = 20_000
const inProcess = {
  // More than there are processors, because some of the files wait for time limits.
  concurrency: availableParallelism() + 3,
  // The random schedules take 20 s on a quiet machine; a busy one must not fail them.
  testTimeoutMs: 4 * minute,
  // Long, because a busy machine must not fail the tests. A hung test is ended sooner, by its own limit.
  tierTimeoutMs: 30 * minute,
  needsPeers: false,
}
const withPeers = { testTimeoutMs: 5 * minute, tierTimeoutMs: 60 * minute, needsPeers: true }
/** How often {@link runPaced} measures how idle the processors are, in milliseconds. */
const SAMPLE_MS = 1_000
/** The most failing files that run again. With more failures, neither the machine nor chance is the cause. */
const MOST_AGAIN = 6
/** How many files share a process. */
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
    concurrency: 5,
    ...withPeers,
  },
  long: {
    files: ['test/long/**/*.test.ts'],
    except: [],
    ...withPeers,
    concurrency: 1,
    testTimeoutMs: 75 * minute,
    tierTimeoutMs: 180 * minute,
    // The explorer of the model stores millions of states.
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
// The files that take longest. They start first, so that none of them runs alone at the end.
const LONGEST =
  /^test\/(?:simulation\/|drill\/random-|commands\/hostile-|telemetry\/h|real\/(?:equality|fault-m|drill-l))/
const rank = (file: string): string => `${LONGEST.test(file) ? 0 : 1} ${file}`
const files = [...new Set(found.flat())].sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
if (tier.needsPeers && !(await ensurePeers({ forLong: tierName === 'long' }))) process.exit(1)

// A short file spends most of its time compiling its imports, so a cache is shared. The tiers with peers run the built
// program, which must use its own cache.
if (!tier.needsPeers) process.env.NODE_COMPILE_CACHE ??= resolve('node_modules/.cache/compiled')
// Read by files of test/support.
process.env.TEST_TIER = tierName
const ownDirectory = await mkdtemp(join(root, 'dist.test-'))
process.once('exit', () => rmSync(ownDirectory, { recursive: true, force: true }))
if (files.some((file) => file.startsWith('test/commands/'))) process.env.TEST_PROGRAM = await bundledProgram()
const problems: string[] = []
const overall = AbortSignal.timeout(tier.tierTimeoutMs)
// A terminal signals the whole process group. A signal to this process alone must also end the tests, and the processes
// that they have started.
const interrupted = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => {
    problems.push(`interrupted by ${name}`)
    interrupted.abort()
  })
}
const startedAt = performance.now()
const sharing = paths.length > 0 || tier.sharing === undefined ? [] : await ownersOfTests(files, tier.sharing)
/** The files that one process runs, by the module that imports them. */
const shared = new Map<string, readonly string[]>()
for (let from = 0; from < sharing.length; from += SHARING) {
  const module = join(ownDirectory, `files-${from}.test.ts`)
  const imported = sharing.slice(from, from + SHARING)
  await writeFile(module, imported.map((file) => `import ${JSON.stringify(resolve(file))}\n`).join(''))
  shared.set(inRoot(module), imported)
}
const durations: { readonly file: string; readonly ms: number }[] = []
/** The files in which at least one test has ended. */
const tested = new Set<string>()
const rest = [...files.filter((file) => !sharing.includes(file)), ...shared.keys()]
const results = tier.needsPeers ? await runPaced(rest, tier.concurrency) : [await runFiles(rest, tier.concurrency)]
for (const file of sharing) if (!tested.has(file)) problems.push(`no test in ${file}`)
problems.push(...results.flatMap((result) => result.problems))
const [ran, passed, failed] = (['ran', 'passed', 'failed'] as const).map((key) =>
  results.reduce((sum, result) => sum + result[key], 0),
)
if (ran === 0) problems.push('no test ran')
if (overall.aborted) problems.push(`not done within ${tier.tierTimeoutMs / minute} minutes`)
for (const problem of problems) console.error(`✖ ${problem}`)
if (problems.length > 0 || results.some(({ success }) => !success)) process.exitCode = 1
const slow = durations.filter(({ ms }) => ms >= SLOW_MS).sort((a, b) => b.ms - a.ms)
for (const { file, ms } of slow) console.log(`${(ms / 1000).toFixed(0).padStart(5)} s  ${file}`)
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
console.log(`${tierName}: ${passed} passed, ${failed} failed, ${files.length} files, ${seconds} s`)

/**
 * Runs files of tests with real servers. Most of the time such a test waits, but the start of a server keeps a
 * processor busy for seconds, and the pauses of an overloaded machine seem to be faults of the program. So another file
 * starts only while the processors are partly idle. A file that fails all the same runs once more, alone. The results
 * of both runs are printed; the second one counts.
 */
async function runPaced(some: readonly string[], atMost: number): Promise<readonly Result[]> {
  const hasOthers = atMost > 1 && some.length > 1
  const results = new Map<string, Result>()
  const running = new Set<Promise<void>>()
  const runOne = async (file: string): Promise<void> => {
    results.set(file, await runFiles([file], 1, hasOthers))
  }
  const isOver = (): boolean => overall.aborted || interrupted.signal.aborted
  for (const file of some) {
    const processors = new IdleProcessors()
    const mayStart = (areIdle: boolean): boolean => running.size === 0 || (areIdle && running.size < atMost)
    while (!isOver() && !mayStart(processors.areIdle())) await Promise.race([...running, sleep(SAMPLE_MS)])
    if (isOver()) break
    const one = runOne(file).finally(() => running.delete(one))
    running.add(one)
  }
  await Promise.all(running)

  const failures = [...results].filter(([, { success }]) => !success).map(([file]) => file)
  if (!hasOthers || failures.length > MOST_AGAIN || isOver()) return [...results.values()]
  const lines: string[] = []
  for (const file of failures) {
    if (isOver()) break
    console.log(`== once more, alone: ${file}`)
    await runOne(file)
    lines.push(`${results.get(file)?.success ? 'failed beside other files, passed alone' : 'failed twice'}: ${file}`)
  }
  for (const line of lines) console.log(line)
  return [...results.values()]
}

/** Runs test files and prints their results: `atEnd`, or while they run. */
async function runFiles(some: readonly string[], concurrency: number, atEnd = false): Promise<Result> {
  const tests = run({
    files: some.map((file) => resolve(file)),
    concurrency,
    timeout: tier?.testTimeoutMs,
    // Without forceExit, because it loses results. leaks.ts ends a process that something keeps alive.
    execArgv: ['--import', resolve('test/support/leaks.ts'), ...(tier?.execArgv ?? [])],
    signal: AbortSignal.any([overall, interrupted.signal]),
    ...(options['test-name-pattern'] && { testNamePatterns: options['test-name-pattern'] }),
  })
  const result = { ran: 0, passed: 0, failed: 0, success: false, problems: [] as string[] }
  tests.on('test:pass', ({ name, file, skip, todo }) => {
    if (skip !== undefined || todo !== undefined) result.problems.push(`skipped or todo: ${name} (${inRoot(file)})`)
  })
  for (const end of ['test:pass', 'test:fail'] as const) tests.on(end, ({ file }) => void tested.add(inRoot(file)))
  // node:test counts a file without a test, or without one that the pattern matches, as a passed test. We do not.
  let withoutTests = 0
  tests.on('test:summary', ({ file, counts, success, duration_ms }) => {
    if (file !== undefined) {
      const together = shared.get(inRoot(file))
      durations.push({ file: together?.join(' ') ?? inRoot(file), ms: duration_ms })
      if (!success && together !== undefined)
        result.problems.push(`a failure in ${inRoot(file)}, which runs ${together.join(' ')}`)
      if (counts.tests > 0) return
      withoutTests++
      if (!options['test-name-pattern']) result.problems.push(`no test in ${inRoot(file)}`)
      return
    }
    result.success = success
    result.ran = counts.tests - withoutTests
    result.passed = counts.passed - withoutTests
    result.failed = result.ran - result.passed - counts.skipped - counts.todo
  })
  const printed = tests.compose(new spec())
  if (atEnd) {
    const lines = (await text(printed)).replace(
      /^ℹ (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) .*\n/gm,
      '',
    )
    process.stdout.write(`== ${some.join(' ')}: ${result.passed} passed, ${result.failed} failed\n${lines}`)
  } else {
    printed.pipe(process.stdout, { end: false })
    await finished(printed)
  }
  return result
}

/**
 * Bundles the program, and resolves with its path. From its sources the program takes three times as long to start,
 * mostly because of the thousand modules of the Kubernetes client.
 */
async function bundledProgram(): Promise<string> {
  await bundleCommandLine(ownDirectory)
  return join(ownDirectory, 'cli.js')
}

async function filesOf(pattern: string, except: readonly string[]): Promise<string[]> {
  const files = await Array.fromAsync(glob(pattern))
  return files.filter((file) => !except.some((excepted) => matchesGlob(file, excepted)))
}

/** The matching files that call `test` themselves: the results of tests that a helper declares do not name the file. */
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
