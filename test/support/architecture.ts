import { posix } from 'node:path'
import { codeOf, type Import, importsOf } from './source-text.ts'

/** A module of src/: its path below src/, and its text. */
export interface SourceFile {
  readonly path: string
  readonly text: string
}

export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly exports?: Readonly<Record<string, unknown>>
}

/** The house plan, from the top down: a module imports from its own line and from those below. */
export const housePlan: readonly (readonly string[])[] = [
  ['cli.ts'],
  ['index.ts', 'testing.ts'],
  ['commands'],
  ['config'],
  ['drill'],
  ['verify'],
  ['bootstrap'],
  ['lifecycle'],
  ['kubernetes-service'],
  ['namespaces'],
  ['service-cidr'],
  ['repair'],
  ['endpoints'],
  ['endpointslice'],
  ['workloads'],
  ['apiserver'],
  ['etcd'],
  ['kube'],
  ['protobuf'],
  ['net'],
  ['documents'],
  ['telemetry'],
  ['runtime'],
]

/** The modules that may use clocks, files, sockets, packages that use these, and dynamic imports. */
const adapters: readonly RegExp[] = [
  /^cli\.ts$/,
  /^apiserver\/http-/,
  /^commands\//,
  /^config\/load-/,
  /^drill\/(?:scenario\/load-|live\/|campaign\/process-)/,
  /^etcd\/connect-/,
  /^kube\/http-/,
  /^kube\/kube-config/,
  /^telemetry\/(?:http|pino|process)-/,
  /^runtime\/system-/,
]

/** What only adapters may use. A finding reports it by its key. */
const nondeterminism: Readonly<Record<string, RegExp>> = {
  // With an argument, Date only computes; without one, it reads the clock.
  'the clock of Date': /\bnew\s+Date\b(?!\s*\(\s*[^\s)])|(?<!\bnew\s+)(?<![\w$.])Date\s*(?:\(|\.\s*now\b)/,
  'Math.random': /\bMath\s*\.\s*random\b/,
  performance: /(?<![\w$.])performance\s*[.?]/,
  'global timers': /(?<![\w$.])(?:setTimeout|setInterval|clearTimeout|clearInterval)\b/,
  setImmediate: /(?<![\w$.])(?:setImmediate|clearImmediate)\b/,
  'AbortSignal.timeout or any': /\bAbortSignal\s*\.\s*(?:timeout|any)\b/,
  randomness: /\b(?:randomUUID|getRandomValues|randomBytes|randomInt)\b/,
  'crypto.subtle': /\bsubtle\b/,
  localeCompare: /\b(?:localeCompare|toLocale\w*String)\b/,
  Intl: /(?<![\w$.])Intl\s*[.?]/,
  process: /(?<![\w$.])process\s*[.?[]/,
  console: /(?<![\w$.])console\s*[.?]/,
  fetch: /(?<![\w$.])fetch\s*\(/,
  'the garbage collector': /\b(?:WeakRef|FinalizationRegistry)\b/,
}

/**
 * After each event, the virtual clock waits until all microtasks have run, and sometimes for a real turn of the event
 * loop.
 */
const exceptions: Readonly<Record<string, readonly string[]>> = {
  'runtime/virtual-clock.ts': ['process', 'setImmediate', 'node:timers', 'node:timers/promises'],
}

/** Built-in modules without I/O, clock or randomness, except for the names in {@link nondeterminism}. */
const pureBuiltins: ReadonlySet<string> = new Set([
  'node:assert/strict',
  'node:async_hooks',
  'node:buffer',
  'node:crypto',
  'node:events',
  'node:util',
])

/** Packages that may be loaded outside adapters: they only compute. */
const purePackages: ReadonlySet<string> = new Set([
  '@bufbuild/protobuf',
  '@connectrpc/connect',
  'ipaddr.js',
  'prom-client',
  'yaml',
  'zod',
])

const publicDoors = ['.', './testing']

/** Imports that go up the house plan, leave src/, or come from or go to a folder that the plan does not name. */
export function upwardImports(files: readonly SourceFile[]): readonly string[] {
  return files.flatMap((file) => {
    const from = lineOf(file.path)
    if (from === -1) return [`${file.path}: not in the house plan`]
    return relativeImports(file).flatMap((target) => {
      const to = lineOf(target)
      if (to === -1) return [`${file.path} imports ${target}, which is not in the house plan`]
      return to < from ? [`${file.path} imports ${target}: that goes up the house plan`] : []
    })
  })
}

/** Cycles of modules that import each other, types included. Each is reported once, as a path. */
export function importCycles(files: readonly SourceFile[]): readonly string[] {
  const imports = new Map(files.map((file) => [file.path, relativeImports(file)]))
  const finished = new Set<string>()
  const cycles: string[] = []
  const visit = (path: string, visited: readonly string[]): void => {
    const first = visited.indexOf(path)
    if (first !== -1) cycles.push([...visited.slice(first), path].join(' -> '))
    if (first !== -1 || finished.has(path)) return
    for (const target of imports.get(path) ?? []) visit(target, [...visited, path])
    finished.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
  return cycles
}

/** Uses of clocks, timers, randomness, locale, files, sockets and dynamic imports outside the adapters. */
export function nondeterministicUses(files: readonly SourceFile[]): readonly string[] {
  return files
    .filter((file) => !adapters.some((adapter) => adapter.test(file.path)))
    .flatMap((file) => {
      const allowed = exceptions[file.path] ?? []
      const code = codeOf(file.text)
      const used = Object.keys(nondeterminism).filter((name) => nondeterminism[name]?.test(code))
      const loaded = importsOf(file.text).filter(isImpure).map(loadedName)
      return [...used, ...loaded]
        .filter((name) => !allowed.includes(name))
        .map((name) => `${file.path} uses ${name}: only adapters may`)
    })
}

/** Files that are too long or not named in kebab-case. */
export function shapeFaults(files: readonly SourceFile[]): readonly string[] {
  const maxLines = 400
  return files.flatMap(({ path, text }) => {
    const lines = text.split('\n').length - 1
    const named = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*\/)*[a-z0-9]+(?:-[a-z0-9]+)*\.ts$/.test(path)
    return [
      ...(lines > maxLines ? [`${path} has ${lines} lines: over ${maxLines}`] : []),
      ...(named ? [] : [`${path}: names are kebab-case and end in .ts`]),
    ]
  })
}

/** Default exports, enums and namespaces. */
export function forbiddenSyntax(files: readonly SourceFile[]): readonly string[] {
  const forbidden: Readonly<Record<string, RegExp>> = {
    'a default export': /\bexport\s+default\b|\bas\s+default\b/,
    'an enum': /(?<![\w$.])enum\s+\w+\s*\{/,
    'a namespace': /(?<![\w$.])(?:namespace|module)\s+[\w.]+\s*\{/,
  }
  return files.flatMap(({ path, text }) => {
    const code = codeOf(text)
    const found = Object.keys(forbidden).filter((name) => forbidden[name]?.test(code))
    return found.map((name) => `${path} has ${name}`)
  })
}

/** Public exports other than the two, and imports of commander outside cli.ts. */
export function doorFaults(files: readonly SourceFile[], manifest: Manifest): readonly string[] {
  const doors = Object.keys(manifest.exports ?? {}).filter((door) => door !== './package.json')
  return [
    ...doors.filter((door) => !publicDoors.includes(door)).map((door) => `package.json exports ${door}`),
    ...publicDoors.filter((door) => !doors.includes(door)).map((door) => `package.json does not export ${door}`),
    ...files
      .filter(
        (file) => file.path !== 'cli.ts' && importsOf(file.text).some(({ specifier }) => specifier === 'commander'),
      )
      .map((file) => `${file.path} imports commander: only cli.ts may`),
  ]
}

/** Packages that src/ imports but does not declare, and declared runtime dependencies that it does not import. */
export function dependencyFaults(files: readonly SourceFile[], manifest: Manifest): readonly string[] {
  const declared = Object.keys(manifest.dependencies ?? {})
  const used = new Map<string, string>()
  for (const file of files)
    for (const { specifier } of importsOf(file.text)) {
      if (isPackage(specifier)) used.set(packageOf(specifier), file.path)
    }
  return [
    ...[...used]
      .filter(([name]) => !declared.includes(name))
      .map(([name, path]) => `${path} imports ${name}, which is not a dependency`),
    ...declared.filter((name) => !used.has(name)).map((name) => `package.json declares ${name}, which nothing imports`),
  ]
}

function lineOf(path: string): number {
  const [first] = path.split('/')
  return housePlan.findIndex((line) => first !== undefined && line.includes(first))
}

function relativeImports(file: SourceFile): readonly string[] {
  return importsOf(file.text)
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier }) => posix.join(posix.dirname(file.path), specifier))
}

function isImpure({ specifier, kind }: Import): boolean {
  if (kind === 'dynamic') return true
  if (kind === 'type' || specifier.startsWith('.')) return false
  return isPackage(specifier) ? !purePackages.has(packageOf(specifier)) : !pureBuiltins.has(specifier)
}

function loadedName({ specifier, kind }: Import): string {
  return kind === 'dynamic' ? 'a dynamic import' : specifier
}

function isPackage(specifier: string): boolean {
  return specifier !== '' && !specifier.startsWith('.') && !specifier.startsWith('node:')
}

function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}
