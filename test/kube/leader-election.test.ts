import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { refusedWith } from '../../src/apiserver/faults.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { LeaderElector, type LeaderElectorOptions, leaderElectionProblem } from '../../src/kube/leader-election.ts'
import { type Lease, leases, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { type ClockView, VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { type LogLine, memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { defaultLeaderElectionTiming } from './election-timing.ts'
import { type Asked, ScriptedApi } from './scripted-api.ts'

type Link = 'up' | 'cut' | 'busy' | 'replies lost' | 'hangs'

/** An API server that holds one Lease, and candidates that reach it over links with delays. */
class Election {
  readonly time = new VirtualClock()
  readonly candidates = new Map<string, Candidate>()
  readonly #clock = this.time.view()
  readonly #random: Random
  lease: Lease | undefined
  writes = 0
  #version = 0

  constructor(seed: number | string = 1) {
    this.#random = seededRandom(1, `network ${seed}`)
  }

  add(identity: string, options: Partial<LeaderElectorOptions> = {}): Candidate {
    const candidate = new Candidate(this, identity, options)
    this.candidates.set(identity, candidate)
    return candidate
  }

  /** The candidates that are certain that they lead at this instant, including the frozen ones. */
  leaders(): string[] {
    return [...this.candidates.values()].filter(({ elector }) => elector.isLeader).map(({ identity }) => identity)
  }

  async request(candidate: Candidate, asked: Asked): Promise<unknown> {
    const { signal } = asked
    const sentMs = this.time.nowMs
    candidate.requests++
    await sleep(this.#clock, randomInteger(this.#random, 30), signal)
    const { link } = candidate
    if (link === 'cut') throw new KubeError('Unreachable', 'no connection')
    if (link === 'busy') throw new KubeError('TooManyRequests', 'too many requests')
    let outcome: { readonly lease: Lease | undefined } | { readonly error: unknown }
    try {
      outcome = { lease: this.#apply(asked) }
    } catch (error) {
      outcome = { error }
    }
    // The reply waits while the candidate is frozen; the request did not wait.
    if (link === 'hangs') await sleep(candidate.clock, 3_600_000, signal)
    await sleep(candidate.clock, randomInteger(this.#random, 30), signal)
    if (link === 'replies lost') throw new KubeError('Unreachable', 'the connection broke')
    if ('error' in outcome) throw outcome.error
    if (asked.call !== 'get') candidate.renewedAtMs = sentMs
    candidate.sees(outcome.lease)
    return outcome.lease
  }

  #apply({ call, of }: Asked): Lease {
    if (call === 'get') {
      if (this.lease === undefined) throw new KubeError('NotFound', 'no such lease')
      return this.lease
    }
    const sent = of as Lease
    if (call === 'create' && this.lease !== undefined) throw new KubeError('AlreadyExists', 'it is there')
    if (call === 'update') {
      if (this.lease === undefined) throw new KubeError('NotFound', 'no such lease')
      if (sent.metadata?.resourceVersion !== this.lease.metadata?.resourceVersion) {
        throw new KubeError('Conflict', 'it has changed')
      }
    }
    this.writes++
    this.lease = { ...sent, metadata: { ...sent.metadata, resourceVersion: String(++this.#version) } }
    return this.lease
  }
}

class Candidate {
  readonly identity: string
  readonly clock: ClockView
  readonly elector: LeaderElector
  readonly lines: LogLine[]
  readonly metrics = prometheusMetrics()
  link: Link = 'up'
  /** Set while `lead` runs, until its signal is aborted. */
  working = false
  requests = 0
  /** When it sent its last write that it knows to have succeeded. */
  renewedAtMs = 0
  /** When it first received the Lease in its last known state. */
  sawAtMs = 0
  #version: string | undefined
  readonly #time: VirtualClock
  readonly #controller = new AbortController()
  readonly run: Promise<void>

  constructor(
    election: Election,
    identity: string,
    options: Partial<LeaderElectorOptions>,
    lead?: () => Promise<void>,
  ) {
    const api = new ScriptedApi()
    api.answer = (asked) => election.request(this, asked)
    const logger = memoryLogger()
    this.lines = logger.lines
    this.identity = identity
    this.#time = election.time
    this.clock = election.time.view()
    this.elector = new LeaderElector({
      api,
      clock: this.clock,
      random: seededRandom(1, identity),
      logger,
      metrics: this.metrics,
      namespace: 'kube-system',
      name: 'controllers',
      identity,
      ...defaultLeaderElectionTiming,
      ...options,
    })
    this.run = this.elector.run(
      this.#controller.signal,
      lead ??
        (async (signal) => {
          this.working = true
          await aborted(signal)
          this.working = false
        }),
    )
  }

  sees(lease: Lease | undefined): void {
    const { resourceVersion } = lease?.metadata ?? {}
    if (resourceVersion !== this.#version) this.sawAtMs = this.#time.nowMs
    this.#version = resourceVersion
  }

  async stop(): Promise<void> {
    this.#controller.abort()
    await this.run
  }
}

test('timings that cannot work are refused with one line', () => {
  const problem = (timing: object) => leaderElectionProblem({ ...defaultLeaderElectionTiming, ...timing })
  assert.equal(problem({}), undefined)
  assert.equal(problem({ retryPeriodMs: 0 }), 'the retry period must be positive')
  assert.equal(problem({ renewDeadlineMs: 2_400 }), 'the renew deadline must be longer than 1.2 times the retry period')
  assert.equal(problem({ leaseDurationMs: 10_000 }), 'the lease duration must be longer than the renew deadline')
  assert.equal(problem({ leaseDurationMs: 15_500 }), 'the lease duration must be a whole number of seconds')
  assert.throws(() => new Election().add('a', { leaseDurationMs: 1_000 }), RangeError)
})

test('the first candidate creates the Lease and leads, and renews the Lease every two seconds with one write', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(59_900)
  assert.deepEqual(election.leaders(), ['a'])
  assert.equal(a.working, true)
  assert.equal(b.elector.leader, 'a')
  assert.deepEqual(election.lease?.metadata, {
    namespace: 'kube-system',
    name: 'controllers',
    resourceVersion: election.lease?.metadata?.resourceVersion,
  })
  const { acquireTime, renewTime, ...rest } = election.lease?.spec ?? {}
  assert.deepEqual(rest, { holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0 })
  assert.match(acquireTime ?? '', /^2026-01-01T00:00:00\.0\d\d000Z$/)
  assert.match(renewTime ?? '', /^2026-01-01T00:00:5\d\.\d{3}000Z$/)
  assert.ok(election.writes >= 29 && election.writes <= 31, `${election.writes} writes`)
  assert.match(await a.metrics.expose(), /leader_election_master_status\{name="controllers"\} 1/)
  await stopIn(election, a, b)
})

async function stopIn(election: Election, ...candidates: Candidate[]): Promise<void> {
  const stops = candidates.map((candidate) => candidate.stop())
  await election.time.advance(6_000)
  await Promise.all(stops)
}

test('a leader that stops releases the Lease, and the next candidate leads within 4.5 seconds', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(10_000)
  const stopped = a.stop()
  await election.time.advance(100)
  await stopped
  assert.equal(election.lease?.spec?.holderIdentity, '')
  assert.equal(election.lease?.spec?.leaseTransitions, 0)
  await election.time.advance(4_500)
  assert.deepEqual(election.leaders(), ['b'])
  assert.equal(election.lease?.spec?.leaseTransitions, 1)
  await stopIn(election, b)
})

test('another candidate replaces a killed leader when its Lease expires', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(10_000)
  a.clock.freeze()
  a.link = 'cut'
  await election.time.advance(12_900)
  assert.ok(!election.leaders().includes('b'))
  await election.time.advance(7_000)
  assert.deepEqual(election.leaders(), ['b'])
  await stopIn(election, b)
})

test('candidates wait for a leader with a longer Lease as long as its Lease specifies', async () => {
  const election = new Election()
  const a = election.add('a', { leaseDurationMs: 60_000, renewDeadlineMs: 50_000 })
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(10_000)
  a.link = 'cut'
  await election.time.advance(47_000)
  assert.deepEqual(election.leaders(), ['a'])
  await election.time.advance(20_000)
  assert.deepEqual(election.leaders(), ['b'])
  await stopIn(election, a, b)
})

for (const link of ['cut', 'hangs'] as const) {
  test(`a leader whose connection ${link === 'cut' ? 'is cut' : 'hangs'} stops after the renew deadline, and another begins after the lease duration`, async () => {
    const election = new Election()
    const a = election.add('a')
    await election.time.advance(100)
    const b = election.add('b', { retryPeriodMs: 100 })
    await election.time.advance(10_000)
    a.link = link
    assert.ok(await election.time.runUntil(() => !a.working, 60_000))
    assert.equal(election.time.nowMs - a.renewedAtMs, 10_000)
    const { sawAtMs } = b
    assert.ok(await election.time.runUntil(() => b.working, 60_000))
    // b reads the Lease every 100 to 220 ms, and two answers take up to 120 ms.
    const beganAfterMs = b.renewedAtMs - sawAtMs
    assert.ok(beganAfterMs >= 15_000 && beganAfterMs < 15_340, `${beganAfterMs} ms`)
    a.link = 'up'
    await election.time.advance(60_000)
    assert.deepEqual(election.leaders(), ['b'])
    assert.deepEqual(
      a.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message),
      ['leading', 'lost leadership', 'another process is the leader'],
    )
    await stopIn(election, a, b)
  })
}

test('a leader continues to lead when the answers to renewals are lost', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(3_000)
  for (let i = 0; i < 10; i++) {
    a.link = 'replies lost'
    await election.time.advance(3_000)
    a.link = 'up'
    await election.time.advance(4_000)
    assert.equal(a.elector.isLeader, true)
  }
  assert.equal(a.lines.filter(({ message }) => message === 'leading').length, 1)
  await stopIn(election, a)
})

test('one renewal without an answer does not end the leadership', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(3_000)
  const { writes } = election
  a.link = 'hangs'
  assert.ok(await election.time.runUntil(() => election.writes > writes, 5_000))
  a.link = 'up'
  await election.time.advance(30_000)
  assert.equal(a.elector.isLeader, true)
  assert.equal(a.lines.filter(({ message }) => message === 'leading').length, 1)
  await stopIn(election, a)
})

test('the work of a leader that cannot renew ends with its leadership, not at the next attempt', async () => {
  const election = new Election()
  const a = election.add('a', { retryPeriodMs: 4_000 })
  await election.time.advance(3_000)
  assert.equal(a.working, true)
  a.link = 'cut'
  while (a.elector.isLeader) await election.time.advance(10)
  assert.equal(a.working, false)
  await stopIn(election, a)
})

test('a candidate does not lead if it reads the answer to a renewal after a long freeze', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(10_000)
  const { writes } = election
  await election.time.runUntil(() => election.writes > writes, 5_000)
  a.clock.freeze()
  assert.ok(await election.time.runUntil(() => b.working, 60_000))
  a.clock.thaw()
  assert.ok(!(await election.time.runUntil(() => election.leaders().length > 1, 30_000)))
  assert.equal(a.working, false)
  await stopIn(election, a, b)
})

test('a candidate does not lead if it reads the answer to its creation of the Lease after a long freeze', async () => {
  const election = new Election()
  const a = election.add('a')
  assert.ok(await election.time.runUntil(() => election.lease !== undefined, 1_000))
  a.clock.freeze()
  const b = election.add('b')
  assert.ok(await election.time.runUntil(() => b.working, 60_000))
  a.clock.thaw()
  assert.ok(!(await election.time.runUntil(() => election.leaders().length > 1, 30_000)))
  assert.deepEqual(election.leaders(), ['b'])
  await stopIn(election, a, b)
})

test('a leader that finds another holder in the Lease stops at its next renewal', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(3_000)
  const metadata = { ...election.lease?.metadata, resourceVersion: 'other' }
  election.lease = { ...election.lease, metadata, spec: { ...election.lease?.spec, holderIdentity: 'kubectl' } }
  const { requests } = a
  assert.ok(await election.time.runUntil(() => a.requests > requests, 2_000))
  assert.equal(a.working, true)
  // The renewal and the read of the Lease take at most 60 ms each.
  assert.ok(await election.time.runUntil(() => !a.working, 120))
  await stopIn(election, a)
})

test('the leader recreates a Lease that was deleted; a waiting candidate does not', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(10_000)
  for (let i = 0; i < 10; i++) {
    election.lease = undefined
    await election.time.advance(7_000)
    assert.deepEqual(election.leaders(), ['a'])
  }
  await stopIn(election, a, b)
})

test('fields that others wrote into the Lease are preserved', async () => {
  const election = new Election()
  election.lease = {
    metadata: { namespace: 'kube-system', name: 'controllers', resourceVersion: '0', labels: { other: 'yes' } },
    spec: { strategy: 'other', leaseTransitions: 7 },
  }
  const a = election.add('a')
  await election.time.advance(5_000)
  assert.equal(a.elector.isLeader, true)
  assert.deepEqual(election.lease?.metadata?.labels, { other: 'yes' })
  assert.equal(election.lease?.spec?.strategy, 'other')
  assert.equal(election.lease?.spec?.leaseTransitions, 8)
  await stopIn(election, a)
})

test('a leader that stops holds the Lease until its work has ended, and only then releases it', async () => {
  const election = new Election()
  const options = { retryPeriodMs: 2_000 }
  const slow: Candidate = new Candidate(election, 'slow', options, async () => sleep(slow.clock, 60_000))
  election.candidates.set('slow', slow)
  await election.time.advance(100)
  const b = election.add('b')
  await election.time.advance(5_000)
  const stopped = slow.stop()
  await election.time.advance(54_000)
  assert.deepEqual(election.leaders(), ['slow'])
  await election.time.advance(6_000)
  await stopped
  assert.deepEqual(election.leaders(), ['b'])
  await stopIn(election, b)
})

test('a leader that stops releases the Lease even if the server is busy for three seconds', async () => {
  const election = new Election()
  const a = election.add('a')
  await election.time.advance(5_000)
  a.link = 'busy'
  const stopped = a.stop()
  await election.time.advance(3_000)
  a.link = 'up'
  await election.time.advance(1_000)
  await stopped
  assert.equal(election.lease?.spec?.holderIdentity, '')
})

test('an error of the work ends the run after the Lease was released', async () => {
  const election = new Election()
  const mistake = new TypeError('a mistake')
  const a: Candidate = new Candidate(election, 'a', {}, async () => {
    await sleep(a.clock, 1_000)
    throw mistake
  })
  const rejected = assert.rejects(a.run, mistake)
  await election.time.advance(2_000)
  await rejected
  assert.equal(election.lease?.spec?.holderIdentity, '')
})

test('a programming error in a renewal ends the run, and the Lease is not released before the work has ended', async () => {
  const election = new Election()
  const slow: Candidate = new Candidate(election, 'slow', {}, async () => sleep(slow.clock, 6_000))
  await election.time.advance(1_000)
  const mistake = new TypeError('a mistake')
  const request = election.request.bind(election)
  election.request = async () => {
    election.request = request
    throw mistake
  }
  const rejected = assert.rejects(slow.run, mistake)
  await election.time.advance(4_000)
  assert.equal(election.lease?.spec?.holderIdentity, 'slow')
  await election.time.advance(3_000)
  await rejected
  assert.equal(election.lease?.spec?.holderIdentity, '')
})

test('two candidates never lead at once, whatever freezes, is cut off, restarts or has its wall clock moved', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = seededRandom(seed, 'faults')
    const election = new Election(seed)
    let started = 0
    const add = (): Candidate => election.add(`${seed}-${++started}`)
    const two = (): boolean => election.leaders().length > 1
    const running = [add(), add(), add()]
    for (let step = 0; step < 40; step++) {
      const index = randomInteger(random, running.length)
      const one = running[index] as Candidate
      const faults = [
        () => one.clock.freeze(),
        () => one.clock.thaw(),
        () => one.clock.setSkew((random.next() - 0.5) * 7_200_000),
        () => {
          one.link = (['up', 'cut', 'replies lost', 'hangs'] as const)[randomInteger(random, 4)] ?? 'up'
        },
        () => {
          // Killed, not stopped: it never sends anything again.
          one.clock.freeze()
          one.link = 'cut'
          running[index] = add()
        },
      ]
      faults[randomInteger(random, faults.length)]?.()
      const overlapped = await election.time.runUntil(two, randomInteger(random, 20_000))
      assert.ok(!overlapped, `seed ${seed}, step ${step}: ${election.leaders().join(' and ')} lead`)
    }
    for (const one of running) {
      one.clock.thaw()
      one.link = 'up'
    }
    const settled = (): boolean => running.filter(({ working }) => working).length === 1
    assert.ok(await election.time.runUntil(settled, 25_000), `seed ${seed}: there is no leader`)
    await election.time.advance(60_000)
    assert.ok(settled())
    await stopIn(election, ...running)
  }
})

test('on the embedded API server one of three candidates leads, then each in turn', async () => {
  const time = new VirtualClock()
  const serverClock = time.view()
  const server = createApiServer({ clock: serverClock, random: seededRandom(1, 'server') })
  const apiOf = (identity: string) =>
    restKubeApi({ transport: inProcessTransport(server), clock: serverClock, random: seededRandom(1, identity) })
  await apiOf('admin').create(namespaces, { metadata: { name: 'kube-system' } })
  const leading = new Set<string>()
  const all = ['a', 'b', 'c'].map((identity) => {
    const controller = new AbortController()
    const elector = new LeaderElector({
      api: apiOf(identity),
      clock: time.view(),
      random: seededRandom(2, identity),
      logger: memoryLogger(),
      namespace: 'kube-system',
      name: 'controllers',
      identity,
      ...defaultLeaderElectionTiming,
    })
    const run = elector.run(controller.signal, async (signal) => {
      leading.add(identity)
      await aborted(signal)
      leading.delete(identity)
    })
    return { identity, controller, run }
  })
  const led: string[] = []
  for (let turn = 0; turn < 3; turn++) {
    await time.advance(6_000)
    assert.equal(leading.size, 1)
    const leader = all.find(({ identity }) => leading.has(identity)) ?? assert.fail()
    led.push(leader.identity)
    leader.controller.abort()
    await leader.run
  }
  assert.deepEqual(led.sort(), ['a', 'b', 'c'])
})

/** A leader on an API server that can be made to refuse the next requests with 429. */
async function leaderOfServer() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'put off')
  const direct = inProcessTransport(createApiServer({ clock, random }))
  let refusals = 0
  let retryAfterSeconds = 0
  const transport: Transport = {
    ...direct,
    async send(request, signal) {
      if (refusals === 0) return direct.send(request, signal)
      refusals--
      return refusedWith(429, retryAfterSeconds)
    },
  }
  const refuse = (times: number, seconds: number): void => {
    refusals = times
    retryAfterSeconds = seconds
  }
  const api = restKubeApi({ transport, clock, random })
  await api.create(namespaces, { metadata: { name: 'kube-system' } })
  const logger = memoryLogger()
  const lease = { namespace: 'kube-system', name: 'c', identity: 'a', ...defaultLeaderElectionTiming }
  const elector = new LeaderElector({ api, clock, random, logger, ...lease })
  const stop = new AbortController()
  const run = elector.run(stop.signal, aborted)
  await time.advance(1_000)
  const end = async (withinMs: number): Promise<void> => {
    stop.abort()
    await time.advance(withinMs)
    await run
  }
  return { api, time, logger, refuse, refusalsLeft: () => refusals, end }
}

test('two renewals that the server refuses with a Retry-After of five seconds do not end the leadership', {
  timeout: 30_000,
}, async () => {
  const { api, time, logger, refuse, refusalsLeft, end } = await leaderOfServer()
  refuse(2, 5)
  await time.advance(20_000)
  assert.equal(refusalsLeft(), 0)
  assert.equal((await api.get(leases, { namespace: 'kube-system', name: 'c' })).spec?.holderIdentity, 'a')
  await end(1_000)
  assert.deepEqual(
    logger.lines.filter(({ level }) => level === 'info').map(({ message }) => message),
    ['leading', 'gave up leadership'],
  )
})

test('a release that the server refuses with a Retry-After of one second succeeds after that', {
  timeout: 30_000,
}, async () => {
  const { api, refuse, refusalsLeft, end } = await leaderOfServer()
  refuse(1, 1)
  await end(3_000)
  assert.equal(refusalsLeft(), 0)
  const lease = await api.get(leases, { namespace: 'kube-system', name: 'c' })
  assert.equal(lease.spec?.holderIdentity, '')
})
