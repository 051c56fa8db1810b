import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { endpoints } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { peakResidentMib, residentMib } from '../peers/footprint.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import type { Child } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { whenReady } from './command-line.ts'
import { startHostileApiServer } from './hostile-api-server.ts'

/** A server that can turn hostile. */
export interface HostileServer {
  /** How many hostile answers were given. */
  readonly given: number
  /** From now on answers are hostile, or good again. Answers that are under way end. */
  turn(hostile: boolean): void
}

export interface HostilityOptions {
  readonly seed: number
  /** The number of hostile answers, in all outages together. */
  readonly answers: number
  readonly outages: number
  readonly start: (args: readonly string[]) => Promise<Child>
  /** The server that turns hostile. @default the API server */
  readonly hostile?: HostileServer
}

/** What was measured in one outage. */
export interface HostileOutage {
  /** From the first good answer until the Endpoints were correct again, in milliseconds. */
  readonly rightMs: number
  /** The log from the first hostile answer until the next outage, without the audit of writes. */
  readonly lines: readonly string[]
  /** The peak resident memory until then, in MiB. */
  readonly peakMib: number
  /** The resident memory when the outage is over, in MiB. */
  readonly residentMib: number
  /** The resident memory before the first outage, in MiB. */
  readonly idleMib: number
}

/** The program counts what happens within five seconds after an outage as part of that outage. */
const QUIET_MS = 5_500

const ref = { namespace: 'default', name: 'kubernetes' }

/**
 * Runs the program with all its informers against a server that is hostile several times and good in between. During
 * each outage somebody empties the Endpoints. Fails if the program ends, logs an error, follows a redirect, or does not
 * correct the Endpoints within a minute.
 */
export async function endureHostility(t: TestContext, options: HostilityOptions): Promise<readonly HostileOutage[]> {
  const random = seededRandom(options.seed, 'hostile')
  const good = createApiServer({ clock: systemClock, random })
  const server = await startHostileApiServer(t, good, random)
  const hostile = options.hostile ?? server
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  writeKubeconfig(kubeconfig, { server: server.url })
  const program = await options.start([
    ...['run', '--kubeconfig', kubeconfig, '--advertise-address', '192.0.2.1', '--health-bind-address', '127.0.0.1:0'],
    ...['--controllers', 'auto,endpoints,endpointslice,endpointslice-mirroring', '--leader-elect', 'false'],
  ])
  const api = restKubeApi({ transport: inProcessTransport(good), clock: systemClock, random })
  const becomeRight = async (): Promise<number> => {
    const startMs = performance.now()
    for (;;) {
      const found = await api.get(endpoints, ref).catch(() => undefined)
      const nowMs = performance.now() - startMs
      if (found?.subsets?.[0]?.addresses?.[0]?.ip === '192.0.2.1') return nowMs
      assert.ok(nowMs < 60_000, `not right:\n${program.stderr().slice(-5_000)}`)
      await sleep(20)
    }
  }
  await becomeRight()
  // The start writes lines of its own.
  await whenReady(program)
  await sleep(1_000)
  const idleMib = Math.round(residentMib(program.pid))
  const outages: HostileOutage[] = []
  let ended = false
  void program.exited.then(() => {
    ended = true
  })
  while (outages.length < options.outages) {
    const from = program.stderr().length
    hostile.turn(true)
    const until = (options.answers * (outages.length + 1)) / options.outages
    while (hostile.given < until && !ended) await sleep(50)
    assert.ok(!ended, `it ended:\n${program.stderr().slice(-5_000)}`)
    await api.update(endpoints, { ...(await api.get(endpoints, ref)), subsets: [] })
    hostile.turn(false)
    const rightMs = Math.round(await becomeRight())
    const output = (): string => program.stderr().slice(from)
    // A request that gets no answer ends after 10 s, and a pause of 10 s may follow.
    for (const endMs = performance.now() + 60_000; !/"message":"[^"]+ is back"/.test(output()); ) {
      assert.ok(performance.now() < endMs, `the outage does not end:\n${output()}`)
      await sleep(50)
    }
    await sleep(QUIET_MS)
    assert.doesNotMatch(output(), /"level":"error"/)
    const outage = {
      rightMs,
      lines: output()
        .split('\n')
        .filter((line) => line !== '' && !line.includes('"audit":true')),
      peakMib: Math.round(peakResidentMib(program.pid)),
      residentMib: Math.round(residentMib(program.pid)),
      idleMib,
    }
    const lines = outage.lines.length > 2 ? outage.lines : outage.lines.length
    t.diagnostic(JSON.stringify({ ...outage, lines }))
    outages.push(outage)
  }
  assert.equal(server.followed, 0)
  program.kill('SIGTERM')
  assert.deepEqual(await program.exited, { code: 0, signal: null })
  return outages
}

/**
 * Fails unless an outage was logged once when it began and once when it ended. A symptom from shortly before the first
 * line, or a refusal that ends the outage, may add two lines.
 */
export function assertOneOutage(lines: readonly string[], most = 4): void {
  const messages = lines.map((line) => (JSON.parse(line) as { readonly message: string }).message)
  const server = /^(.+) is back$/m.exec(messages.join('\n'))?.[1]
  for (const message of [`lost ${server}`, `${server} is back`]) {
    assert.equal(messages.filter((each) => each === message).length, 1, lines.join('\n'))
  }
  assert.ok(lines.length <= most, lines.join('\n'))
}
