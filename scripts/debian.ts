import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

/** A program that tests need, from Debian packages. Only apt-get downloads anything. */
interface DebianProgram {
  readonly name: string
  readonly packages: readonly string[]
  readonly purpose: string
  readonly home: string
}

const programs: readonly DebianProgram[] = [
  {
    name: 'chromium',
    packages: ['chromium', 'fonts-dejavu-core'],
    purpose: 'to open the pages of drill reports',
    home: 'https://www.chromium.org',
  },
  {
    name: 'redis-server',
    packages: ['redis-server'],
    purpose: 'to hold a lease store of somebody else to the contract',
    home: 'https://redis.io',
  },
  { name: 'zsh', packages: ['zsh'], purpose: 'to complete a command line', home: 'https://www.zsh.org' },
  { name: 'fish', packages: ['fish'], purpose: 'to complete a command line', home: 'https://fishshell.com' },
]

/** The path of a program on the PATH; undefined if it is not there. */
export async function whereIs(program: string): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(directory, program)
    if (directory !== '' && (await isExecutable(path))) return path
  }
  return undefined
}

/**
 * Installs those of the programs that are not on the PATH. If that fails, prints the reason to stderr and resolves with
 * false.
 */
export async function ensureDebianPrograms(): Promise<boolean> {
  for (const program of programs) {
    const { name, purpose } = program
    if ((await whereIs(name)) !== undefined) continue
    const failure = await install(program)
    if (failure === undefined && (await whereIs(name)) !== undefined) continue
    console.error(`peers: ${name} is needed ${purpose}: ${failure ?? `its package put no ${name} on the PATH`}`)
    return false
  }
  return true
}

async function install({ name, packages, home }: DebianProgram): Promise<string | undefined> {
  if ((await whereIs('apt-get')) === undefined) {
    return `no ${name} is on the PATH, and no apt-get to install it with; install it from ${home}`
  }
  if (process.getuid?.() !== 0) return `no ${name} is on the PATH; run \`sudo apt-get install ${name}\``
  console.error(`peers: installing ${name} by apt-get (a minute)`)
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...packages]]) {
    const failure = await aptGet(args)
    if (failure !== undefined) return failure
  }
  console.error(`peers: ${name} installed`)
  return undefined
}

/** Runs apt-get. Resolves with undefined, or with the reason of a failure and the last line of the output. */
function aptGet(args: readonly string[]): Promise<string | undefined> {
  return new Promise((settle) => {
    const child = spawn('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        output = (output + chunk).slice(-4_000)
      })
    }
    child.once('error', (error) => settle(`apt-get ${args[0]}: ${error.message}`))
    child.once('close', (code, signal) => {
      const last = output.trimEnd().split('\n').at(-1)
      settle(code === 0 ? undefined : `apt-get ${args[0]} ended with ${code ?? signal}: ${last}`)
    })
  })
}

function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

if (import.meta.main && !(await ensureDebianPrograms())) process.exitCode = 1
