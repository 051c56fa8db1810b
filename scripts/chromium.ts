import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

// Debian's Chromium, in which the tests open the pages of drill reports. No browser is ever downloaded past the system's own packages.

/** Where `chromium` is on the PATH; undefined when it is not. */
export async function chromiumPath(): Promise<string | undefined> {
  return await whereIs('chromium')
}

/** Makes sure that `chromium` is on the PATH. Says on stderr what is missing and resolves to false when it cannot. */
export async function ensureChromium(): Promise<boolean> {
  if ((await chromiumPath()) !== undefined) return true
  const failure = await install()
  if (failure === undefined && (await chromiumPath()) !== undefined) return true
  console.error(
    `peers: Chromium is needed to open the pages of drill reports: ${failure ?? 'its package put no chromium on the PATH'}`,
  )
  return false
}

async function install(): Promise<string | undefined> {
  if ((await whereIs('apt-get')) === undefined) {
    return 'no chromium is on the PATH, and no apt-get to install it with; install it from https://www.chromium.org'
  }
  if (process.getuid?.() !== 0) return 'no chromium is on the PATH; run `sudo apt-get install chromium`'
  console.error('peers: installing chromium by apt-get (a minute)')
  const packages = ['chromium', 'fonts-dejavu-core']
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...packages]]) {
    const failure = await aptGet(args)
    if (failure !== undefined) return failure
  }
  console.error('peers: chromium installed')
  return undefined
}

/** Runs apt-get; resolves to the reason when it failed, with the last that it said. */
function aptGet(args: readonly string[]): Promise<string | undefined> {
  return new Promise((settle) => {
    const child = spawn('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        said = (said + chunk).slice(-4_000)
      })
    }
    child.once('error', (error) => settle(`apt-get ${args[0]}: ${error.message}`))
    child.once('close', (code, signal) => {
      const last = said.trimEnd().split('\n').at(-1)
      settle(code === 0 ? undefined : `apt-get ${args[0]} ended with ${code ?? signal}: ${last}`)
    })
  })
}

async function whereIs(program: string): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(directory, program)
    if (directory !== '' && (await isExecutable(path))) return path
  }
  return undefined
}

function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

if (import.meta.main && !(await ensureChromium())) process.exitCode = 1
