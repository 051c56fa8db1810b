import { type AsyncHook, createHook } from 'node:async_hooks'
import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { relative } from 'node:path'
import { after, beforeEach } from 'node:test'

// Loaded before every test file (`--import`). When all its tests are done, anything that still keeps the process busy
// fails the file. So does an unhandled rejection, which node:test ignores once its test has ended.

/**
 * How long sockets and processes may take to close after the test that ends them: usually a moment, on a busy machine
 * many seconds.
 */
const graceMs = Number(process.env.TEST_GRACE_MS ?? 20_000)
/** How long after that the process ends, whatever keeps it alive. */
const endMs = 1000

// An open handle may be unreferenced (an idle connection in a pool). Then it is missing from the active resources.
const sockets = new Set<Socket>()
const children = new Set<ChildProcess>()
const rejections: unknown[] = []

for (const channel of ['net.client.socket', 'net.server.socket']) {
  subscribe(channel, (message) => {
    const { socket } = message as { socket: Socket }
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
}
subscribe('child_process', (message) => {
  const child = (message as { process: ChildProcess }).process
  children.add(child)
  for (const end of ['exit', 'error']) child.once(end, () => children.delete(child))
})
process.on('unhandledRejection', (reason) => {
  rejections.push(reason)
})

// Streams to the runner are opened on first use; they are no leak.
void process.stdout
void process.stderr
const atStart = count(process.getActiveResourcesInfo())

// At its first use, node:test enables a hook that records for each promise and timer which test it came from. This
// costs a third of the CPU time of the unit tests. The hook is needed while suites are declared, also for the `after`
// of a suite. From the first test on, it only names the test of an error that comes after its end. Without the hook
// such an error fails the file.
if (process.env.TEST_TIER === 'unit') disableFromFirstTest()

after(async () => {
  const deadline = performance.now() + graceMs
  let left = leftovers()
  while (left.length > 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    left = leftovers()
  }
  const problems = left.length === 0 ? [] : [`left open after the last test: ${left.join(', ')}`]
  for (const reason of rejections) problems.push(`unhandled rejection: ${describe(reason)}`)
  if (left.length > 0) endLater()
  if (problems.length > 0) throw new Error(`${relative('.', process.argv[1] ?? '')}: ${problems.join('\n')}`)
})
function disableFromFirstTest(): void {
  const hooks: { enable(this: AsyncHook): AsyncHook } = Object.getPrototypeOf(createHook({}))
  const { enable } = hooks
  let ofTests: AsyncHook | undefined
  hooks.enable = function () {
    ofTests = this
    return enable.call(this)
  }
  beforeEach(() => void ofTests?.disable())
  hooks.enable = enable
}

/** What is left may keep the process alive for ever. By then the results have long been written. */
function endLater(): void {
  for (const child of children) child.kill('SIGKILL')
  setTimeout(() => process.exit(1), endMs).unref()
}

function leftovers(): string[] {
  const left = [...children].map((child) => `process ${child.pid} (${child.spawnargs.join(' ')})${stateOf(child)}`)
  for (const socket of sockets) left.push(`socket ${socket.localPort} to ${socket.remoteAddress}:${socket.remotePort}`)
  for (const [kind, number] of count(process.getActiveResourcesInfo())) {
    const more = number - (atStart.get(kind) ?? 0)
    if (more > 0) left.push(`${more} ${kind}`)
  }
  return left
}

/** The state of a process as Linux names it, such as ` in state Z` for one that has ended but is not reaped yet. */
function stateOf({ pid }: ChildProcess): string {
  try {
    return ` in state ${/\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]}`
  } catch {
    return ''
  }
}

function count(kinds: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

function describe(reason: unknown): string {
  return reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)
}
