import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, glob, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { collect, root } from './command.ts'
import { ensureDebianPrograms } from './debian.ts'

// Builds the real servers that the tests use, from pinned Go modules, into test/peers/bin (ignored by git). Installs
// the Debian programs that the tests use.

/** A Go module under test/peers, and the package behind each program that is built in it. */
interface PeerModule {
  readonly name: string
  readonly programs: Readonly<Record<string, string>>
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
  /** The packages that are compiled without optimization: a pattern of go. */
  readonly unoptimized?: string
  /** Whether only the long tests need the module. */
  readonly isForLong?: boolean
}

const modules: readonly PeerModule[] = [
  {
    name: 'kubernetes',
    programs: {
      etcd: 'go.etcd.io/etcd/server/v3',
      'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
      'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
      kubectl: 'k8s.io/kubernetes/cmd/kubectl',
      'bare-apiserver': './bare-apiserver',
      'eager-apiserver': './eager-apiserver',
      'generic-apiserver': 'k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic',
      'stored-bytes': './stored-bytes',
    },
  },
  // Few tests run it, so its speed matters less than its compilation, which takes a third less time this way.
  { name: 'kubernetes-1.32', programs: { 'bare-apiserver-1.32': './bare-apiserver' }, unoptimized: 'k8s.io/...' },
  { name: 'kubeadm', programs: { kubeadm: 'k8s.io/kubernetes/cmd/kubeadm' } },
  { name: 'kine', programs: { kine: 'github.com/k3s-io/kine' } },
  // Tests of rules need no service discovery, which would add the libraries of every cloud.
  {
    name: 'prometheus',
    programs: { promtool: 'github.com/prometheus/prometheus/cmd/promtool' },
    env: { GOFLAGS: '-tags=remove_all_sd' },
    isForLong: true,
  },
]

const peersDirectory = join(root, 'test/peers')
const binDirectory = join(peersDirectory, 'bin')

/**
 * Builds the programs of each module that has changed since its last build, and installs missing Debian programs.
 * Modules for long tests are built only with `forLong`. Needs Go only for a build. After a failure, prints the reason
 * to stderr and resolves with false. The old programs of a module stay until all its new ones are built.
 */
export async function ensurePeers({ forLong = false } = {}): Promise<boolean> {
  const ready = await Promise.all([ensurePrograms(forLong), ensureDebianPrograms()])
  return ready.every(Boolean)
}

async function ensurePrograms(forLong: boolean): Promise<boolean> {
  for (const module of modules) {
    if (module.isForLong && !forLong) continue
    const args = ['build', '-trimpath', '-buildvcs=false', '-mod=readonly', ...(await toolFlags(module))]
    const stamp = await stampOf(module, args)
    if (await isBuilt(module, stamp)) continue
    if (!(await build(module, args, stamp))) return false
  }
  return true
}

async function build(module: PeerModule, args: readonly string[], stamp: string): Promise<boolean> {
  const names = Object.keys(module.programs)
  if (!(await collect('go', ['version'])).ok) {
    console.error(`peers: Go (https://go.dev/dl) is needed to build ${names.join(', ')}, and is not on the PATH`)
    return false
  }
  console.error(`peers: building ${names.join(', ')} (the first time minutes, then seconds)`)
  const directory = join(peersDirectory, module.name)
  await mkdir(binDirectory, { recursive: true })
  const next = await mkdtemp(join(binDirectory, '.next-'))
  try {
    for (const [name, source] of Object.entries(module.programs)) {
      const startedAt = performance.now()
      const elapsed = (): string => `${((performance.now() - startedAt) / 1000).toFixed(0)} s`
      const progress = setInterval(() => console.error(`peers: ${name}, ${elapsed()} so far`), 30_000)
      const failure = await go([...args, '-o', join(next, name), source], directory, module.env).finally(() =>
        clearInterval(progress),
      )
      if (failure !== undefined) {
        console.error(`peers: ${name}: ${failure}`)
        return false
      }
      console.error(`peers: ${name} built in ${elapsed()}`)
    }
    await rm(stampFile(module), { force: true })
    for (const name of names) await rename(join(next, name), join(binDirectory, name))
    await writeFile(stampFile(module), stamp)
    return true
  } finally {
    await rm(next, { recursive: true, force: true })
  }
}

/** Runs go, with the output of this process. Resolves with undefined, or with the reason of a failure. */
function go(args: readonly string[], cwd: string, env: PeerModule['env']): Promise<string | undefined> {
  return new Promise((settle) => {
    const child = spawn('go', args, {
      cwd,
      // The compiler is a Go program too: collecting its garbage less often saves a sixth of the time. Without cgo no C
      // compiler is needed, kine uses an SQLite that is written in Go, and all modules share the standard library.
      env: { GOGC: '400', ...process.env, CGO_ENABLED: '0', ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    // A signal ends the compiler. Its failure then leads to the cleanup in `build`.
    const end = (signal: NodeJS.Signals): void => void child.kill(signal)
    const done = (reason: string | undefined): void => {
      process.off('SIGINT', end).off('SIGTERM', end)
      settle(reason)
    }
    process.on('SIGINT', end).on('SIGTERM', end)
    child.once('error', (error) => done(error.message))
    child.once('close', (code, signal) => done(code === 0 ? undefined : `go build ended with ${code ?? signal}`))
  })
}

/**
 * The flags for the compiler and the linker. Nobody debugs these programs: without DWARF, compiling takes a tenth less.
 */
async function toolFlags(module: PeerModule): Promise<readonly string[]> {
  const { unoptimized } = module
  return [
    '-gcflags=all=-dwarf=false',
    ...(unoptimized === undefined ? [] : [`-gcflags=${unoptimized}=-dwarf=false -N -l`]),
    `-ldflags=${await linkerFlags(module)}`,
  ]
}

/** The linker flags of a module. In Kubernetes programs they set the version that the program reports. */
async function linkerFlags(module: PeerModule): Promise<string> {
  const goMod = await readFile(join(peersDirectory, module.name, 'go.mod'), 'utf8')
  const version = /^(?:\t|require )k8s\.io\/kubernetes v(\d+)\.(\d+)\.\d+$/m.exec(goMod)
  if (version === null) return '-s -w'
  const [line, major, minor] = version
  const set = (name: string, value = ''): string => `-X k8s.io/component-base/version.${name}=${value}`
  return `-s -w ${set('gitVersion', line.split(' ').at(-1))} ${set('gitMajor', major)} ${set('gitMinor', minor)}`
}

/** A hash of everything on which a build depends, except the version of the compiler. */
async function stampOf(module: PeerModule, args: readonly string[]): Promise<string> {
  const directory = join(peersDirectory, module.name)
  const hash = createHash('sha256').update(JSON.stringify([module, args, process.platform, process.arch]))
  const sources = await Array.fromAsync(glob('{go.mod,go.sum,**/*.go}', { cwd: directory }))
  for (const source of sources.sort()) hash.update(`\0${source}\0`).update(await readFile(join(directory, source)))
  return hash.digest('hex')
}

async function isBuilt(module: PeerModule, stamp: string): Promise<boolean> {
  try {
    for (const name of Object.keys(module.programs)) await access(join(binDirectory, name))
    return (await readFile(stampFile(module), 'utf8')) === stamp
  } catch {
    return false
  }
}

function stampFile(module: PeerModule): string {
  return join(binDirectory, `.${module.name}.stamp`)
}

if (import.meta.main) {
  if (await ensurePeers()) console.error(`peers: ready in ${binDirectory}`)
  else process.exitCode = 1
}
