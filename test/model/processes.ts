import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import type { MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import type { LifeSpan } from '../../src/kubernetes-service/members.ts'
import type { MembershipEffect, MembershipInput, OnShutdown } from '../../src/kubernetes-service/membership/state.ts'
import type { MembershipTimings } from '../../src/kubernetes-service/membership/timings.ts'
import { countedAnew, livesIn, withLives } from './lives.ts'
import { holderOf, LIVES, type Machine, TICK_MS } from './machine.ts'
import * as observers from './observer.ts'
import { aged, BEFORE, canonical, type ListJob, LONG_BEFORE, nowOf, type Process, SHOWN } from './process.ts'
import { processKey } from './process-key.ts'

/**
 * A master's API server.
 * - `failing`: it answers that it is not ready, and carries out other requests.
 * - `dead`: it refuses connections.
 * - `hung`: no request to it is answered.
 */
export const SERVERS = ['ok', 'failing', 'dead', 'hung'] as const
export type Server = 0 | 1 | 2 | 3
export const [OK, FAILING, DEAD, HUNG] = [0, 1, 2, 3] as const

const answers: readonly ReadinessAnswer[] = [
  { answered: true, ready: true, checks: [] },
  { answered: true, ready: false, checks: [] },
  { answered: false, reason: '' },
]

/** More inputs than this at one moment are an endless loop. */
const MAX_INPUTS = 50

/** A mistake that one process alone shows, without the others. */
export class ProcessMistake extends Error {}

/** What the world needs to know of a process. */
export interface ProcessFacts {
  readonly process: Process
  /** Bits of the lives that it mentions, including its own. */
  readonly lives: number
  /** Bits of the lives whose departures it mentions. */
  readonly mentions: number
  readonly isOut: boolean
  readonly hasExited: boolean
}

export interface ProcessOptions {
  readonly machine: Machine
  readonly timings: MembershipTimings
  /** Whether each sidecar decides for itself which leases are over. */
  readonly observes: boolean
  /** Whether a read shows that a lease was renewed since the previous read. */
  readonly knowsRenewals: boolean
}

/** All states of processes found so far, each once, and the result of each input to each of them. */
export class Processes {
  readonly machine: Machine
  readonly timings: MembershipTimings
  readonly #ids = new Map<string, number>()
  readonly #facts: ProcessFacts[] = []
  readonly #steps = new Map<number, number>()
  readonly #ticks = new Map<number, number>()
  /** How many inputs the current event has caused. */
  #inputs = 0
  readonly #views: (readonly MasterLease[])[] = []
  readonly #viewIds = new Map<string, number>()
  readonly #options: ProcessOptions

  constructor(options: ProcessOptions) {
    this.#options = options
    this.machine = options.machine
    this.timings = options.timings
    // No process has the number 0.
    this.#facts.push(undefined as unknown as ProcessFacts)
  }

  get size(): number {
    return this.#facts.length
  }

  get steps(): number {
    return this.#steps.size + this.#ticks.size
  }

  facts(id: number): ProcessFacts {
    return this.#facts[id] as ProcessFacts
  }

  of(id: number): Process {
    return (this.#facts[id] as ProcessFacts).process
  }

  intern(process: Process): number {
    const lean = canonical(process)
    const key = processKey(lean)
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    const id = this.#facts.length
    const { phase } = lean.state
    const isOut = phase.type === 'out'
    this.#facts.push({
      process: lean,
      lives: livesIn(lean.state) | (lean.found === undefined ? 0 : livesIn(this.#views[lean.found])),
      mentions: mentionsOf(key),
      isOut,
      hasExited: isOut && phase.why !== 'withdrawn',
    })
    this.#ids.set(key, id)
    return id
  }

  /** A sidecar that has just been started. */
  started(master: number, life: number, address: number): number {
    return this.intern({
      master,
      life,
      state: this.machine.startMembership(holderOf(master, life, address)),
      lease: 'none',
      read: 'none',
      found: undefined,
      list: undefined,
      again: false,
      probingMs: undefined,
      renewing: 0,
      met: 0,
      observer: this.#options.observes ? observers.unknownLeases : undefined,
      knowsRenewals: this.#options.knowsRenewals,
    })
  }

  /** The watch reports changed leases. `present`: bits of the masters that have a lease now. */
  changed(id: number, server: Server, present: number): number {
    return this.#memo(id, server, 32 + present, (process) => {
      const { observer } = process
      const watched = observer && observers.watched(observer, mastersOf(present))
      return this.#take({ ...process, observer: watched }, { type: 'changed' }, server)
    })
  }

  /** A lease was renewed or created while this sidecar ran or was frozen. `isReported`: its watch reports that. */
  renewed(id: number, master: number, isReported: boolean, isNew: boolean): number {
    const code = 20 + master * 4 + (isReported ? 2 : 0) + (isNew ? 1 : 0)
    return this.#memo(id, OK, code, (process) => {
      const { state, observer, found } = process
      const { fleet } = state
      const isOf = ({ holder }: MasterLease): boolean => holder?.host === 'abc'[master]
      const view = found === undefined ? undefined : (this.#views[found] as readonly MasterLease[])
      const hasFound = view?.some((lease) => isOf(lease) && lease.renewal === SHOWN) === true
      const earlier = (lease: MasterLease): MasterLease => {
        if (!isOf(lease) || lease.renewal === undefined) return lease
        return { ...lease, renewal: lease.renewal === SHOWN || !hasFound ? BEFORE : LONG_BEFORE }
      }
      return {
        ...process,
        renewing: process.renewing | (1 << master),
        met: isNew ? process.met & ~(1 << master) : process.met,
        observer: observer && observers.renewed(observer, master, isReported),
        found: view && this.view(view.map((lease) => (isOf(lease) ? { ...lease, renewal: BEFORE } : lease))),
        state: { ...state, fleet: { ...fleet, leases: fleet.leases.map(earlier) } },
      }
    })
  }

  /**
   * Whether this sidecar behaves the same whenever in this tick the lease is renewed, provided that its watch reports
   * it.
   */
  isBlindTo(id: number, master: number): boolean {
    const { observer, state } = this.of(id)
    if (state.fleet.leases.some(({ holder, renewal }) => renewal !== undefined && holder?.host === 'abc'[master])) {
      return false
    }
    return observer === undefined || observers.isFarFromEnd(observer, master)
  }

  /** Bits of the masters whose leases are over by this sidecar's judgement. */
  overFor(id: number): number {
    const { observer } = this.of(id)
    if (observer === undefined) return 0
    return [0, 1, 2].reduce((bits, master) => (observers.isOver(observer, master) ? bits | (1 << master) : bits), 0)
  }

  stopped(id: number, server: Server, mode: OnShutdown): number {
    const code = mode === 'withdraw' ? 1 : mode === 'always' ? 2 : 3
    return this.#memo(id, server, code, (process) =>
      this.#take({ ...process, list: undefined, again: false }, { type: 'stop', mode }, server),
    )
  }

  leaseEnded(id: number, server: Server, outcome: 'done' | 'unknown' | 'withdrawn'): number {
    const code = outcome === 'done' ? 4 : outcome === 'unknown' ? 5 : 6
    const input: MembershipInput = outcome === 'done' ? { type: 'done' } : { type: 'failed', failure: outcome }
    return this.#memo(id, server, code, (process) => this.#take({ ...process, lease: 'none' }, input, server))
  }

  listEnded(id: number, server: Server, outcome: 'written' | 'conflict' | 'failed' | 'refused'): number {
    const code = outcome === 'written' ? 9 : outcome === 'conflict' ? 10 : outcome === 'failed' ? 11 : 12
    return this.#memo(id, server, code, (process) => {
      const kind = process.list?.kind
      const free = { ...process, list: undefined }
      if (kind === 'leave') return this.#take(free, { type: 'list', outcome }, server)
      return this.#settledList({ ...free, again: process.again || outcome === 'conflict' || outcome === 'failed' })
    })
  }

  withLease(id: number, lease: Process['lease']): number {
    const code = lease === 'lost' ? 13 : 14
    return this.#memo(id, OK, code, (process) => ({ ...process, lease }))
  }

  withRead(id: number, read: Process['read'], found: number | undefined): number {
    return this.intern({ ...this.of(id), read, found })
  }

  withList(id: number, list: Partial<ListJob>): number {
    const process = this.of(id)
    return this.intern({ ...process, list: { ...(process.list as ListJob), ...list } })
  }

  /** The list was written. */
  outdated(id: number): number {
    return this.#memo(id, OK, 15, (process) =>
      process.list?.stage === 'commit' && !process.list.stale
        ? { ...process, list: { ...process.list, stale: true } }
        : process,
    )
  }

  /** This sidecar has seen that the list differs from its desired state. */
  unsatisfied(id: number): number {
    return this.#memo(id, OK, 19, (process) => this.#settledList({ ...process, again: true }))
  }

  /** Renumbers the lives of a master; see {@link countedAnew}. */
  recounted(id: number, master: number, lives: number): number {
    return this.#memo(id, OK, 48 + master * 16 + lives, (process) => {
      const host = 'abc'[master] as string
      const counted = countedAnew(lives) as readonly number[]
      const { found } = process
      return {
        ...withLives(process, host, counted),
        life: process.master === master ? (counted[process.life] as number) : process.life,
        found: found && this.view(withLives(this.#views[found] as readonly MasterLease[], host, counted)),
      }
    })
  }

  /** Restarts the numbering of its departures. */
  renumbered(id: number): number {
    return this.#memo(id, OK, 16, (process) => ({ ...process, state: { ...process.state, departures: 0 } }))
  }

  /** Assigns a number to what a read of the leases shows. */
  view(leases: readonly MasterLease[]): number {
    const key = JSON.stringify(leases)
    let index = this.#viewIds.get(key)
    if (index === undefined) {
      index = this.#views.length
      this.#views.push(leases)
      this.#viewIds.set(key, index)
    }
    return index
  }

  /**
   * A read of the leases has ended. `asked`: a `read` effect requested it; otherwise it was sent just now, for the
   * list.
   */
  leasesRead(id: number, server: Server, view: number, asked: boolean): number {
    return this.#memo(id, server, 96 + view * 2 + (asked ? 1 : 0), (process) => {
      const sentAtMs = asked ? (process.state.fleet.readingSinceAtMs as number) : nowOf(process)
      const shown = this.#views[view] as readonly MasterLease[]
      const observer =
        process.observer &&
        observers.listed(
          process.observer,
          [...'abc'].map((host) => shown.some(({ holder }) => holder?.host === host)),
        )
      const leases =
        observer === undefined
          ? shown
          : shown.filter(({ holder }) => !observers.isOver(observer, 'abc'.indexOf(holder?.host ?? '')))
      const input: MembershipInput = { type: 'leases', sentAtMs, leases, span: spanOf(process), requested: asked }
      const read = asked ? { read: 'none' as const, found: undefined } : {}
      return this.#take({ ...process, ...read, observer }, input, server)
    })
  }

  /** The first probe, and everything that is due at once. */
  begun(id: number, server: Server): number {
    return this.#memo(id, server, 17, (process) => this.#asked(process, server))
  }

  /**
   * One tick of a running process: time limits, answers of probes and timers, in this order. A frozen process only
   * ages.
   */
  ticked(id: number, server: Server, isFrozen: boolean): number {
    const key = (id * 4 + server) * 2 + (isFrozen ? 1 : 0)
    const known = this.#ticks.get(key)
    if (known !== undefined) return known
    const process = this.of(id)
    const wakeMs = this.machine.wakeAtMs(process.state, nowOf(process), this.timings)
    // The pauses of the first attempts to join are shorter than a tick.
    const isDue = wakeMs !== undefined && wakeMs < TICK_MS + 50
    this.#inputs = 0
    const later = canonical(aged(process))
    const { observer } = process
    const isListDue = observer !== undefined && observers.isListDue(observer, later.observer ?? observer)
    const after = this.intern(isFrozen ? later : this.#tick(later, server, isDue, isListDue))
    this.#ticks.set(key, after)
    return after
  }

  /** Continues a frozen process: everything that was due happens at once. */
  thawed(id: number, server: Server): number {
    return this.#memo(id, server, 18, (process) => this.#tick(process, server, true, false))
  }

  #tick(before: Process, server: Server, isDue: boolean, isListDue: boolean): Process {
    const { attemptMs, probeTimeoutMs } = this.timings
    let process = before
    const { lease, read, list } = process
    if (lease === 'lost') {
      process = this.#take({ ...process, lease: 'none' }, { type: 'failed', failure: 'unknown' }, server)
    } else if (lease === 'delayed') process = { ...process, lease: 'pending' }
    if (read === 'lost') {
      const observer = process.observer && observers.interrupted(process.observer)
      process = this.#take({ ...process, read: 'none', observer }, { type: 'read-failed' }, server)
    } else if (read === 'delayed' && process.found === undefined) process = { ...process, read: 'pending' }
    else if (read === 'delayed') {
      const sentAtMs = process.state.fleet.readingSinceAtMs as number
      const leases = this.#views[process.found as number] as readonly MasterLease[]
      const input: MembershipInput = { type: 'leases', sentAtMs, leases, span: spanOf(process), requested: true }
      process = this.#take({ ...process, read: 'none', found: undefined }, input, server)
    }
    if (isListDue) process = this.#take(process, { type: 'changed' }, server)
    if (list?.status === 'delayed') process = { ...process, list: { ...list, status: 'pending' } }
    if (list?.status === 'failing' && process.list !== undefined) {
      process = { ...process, list: undefined }
      if (list.kind === 'leave') process = this.#take(process, { type: 'list', outcome: 'failed' }, server)
      else process = { ...process, again: true }
    }
    const { probingSinceAtMs } = process.state.server
    if (probingSinceAtMs !== undefined && server === HUNG && nowOf(process) - probingSinceAtMs >= attemptMs) {
      process = this.#take(
        process,
        {
          type: 'probed',
          sentAtMs: probingSinceAtMs,
          answered: false,
          serving: false,
          readiness: process.state.server.readiness,
          requested: true,
        },
        server,
      )
    }
    if (process.probingMs !== undefined && (server !== HUNG || nowOf(process) - process.probingMs >= probeTimeoutMs)) {
      const sentAtMs = process.probingMs
      process = this.#probed({ ...process, probingMs: undefined }, server === HUNG ? DEAD : server, sentAtMs, false)
    }
    if (process.probingMs === undefined) process = this.#asked(process, server)
    return isDue ? this.#take(process, { type: 'timer' }, server) : this.#settled(process, server)
  }

  /** Sends the periodic probe. */
  #asked(process: Process, server: Server): Process {
    const nowMs = nowOf(process)
    return server === HUNG ? { ...process, probingMs: nowMs } : this.#probed(process, server, nowMs, false)
  }

  #probed(process: Process, server: Server, sentAtMs: number, asked: boolean): Process {
    const { machine } = this
    const answer = answers[server] as ReadinessAnswer
    const nowMs = nowOf(process)
    const readiness = machine.nextReadiness(process.state.server.readiness, answer, nowMs)
    const serving = machine.isServing(answer)
    return this.#take(
      process,
      { type: 'probed', sentAtMs, answered: answer.answered, serving, readiness, requested: asked },
      server,
    )
  }

  #memo(id: number, server: Server, code: number, work: (process: Process) => Process): number {
    const key = (id * 4 + server) * 2 ** 20 + code
    const known = this.#steps.get(key)
    if (known !== undefined) return known
    this.#inputs = 0
    const after = this.intern(work(this.of(id)))
    this.#steps.set(key, after)
    return after
  }

  /** Feeds one input, and answers the probes that it causes: a server that does not hang answers or refuses at once. */
  #take(process: Process, input: MembershipInput, server: Server): Process {
    if (++this.#inputs > MAX_INPUTS) throw new ProcessMistake('it goes on asking its server without a pause')
    const { state, effects } = this.machine.step(process.state, input, nowOf(process), this.timings)
    let after: Process = { ...process, state, met: process.met | (metBy(input) & process.renewing) }
    for (const effect of effects) after = carriedOut(after, effect)
    // Later inputs have later times than this one.
    return this.#settled(canonical(after), server)
  }

  #settled(process: Process, server: Server): Process {
    const { probingSinceAtMs } = process.state.server
    if (probingSinceAtMs !== undefined && server !== HUNG) return this.#probed(process, server, probingSinceAtMs, true)
    return this.#settledList(process)
  }

  #settledList(process: Process): Process {
    const { again, list, state } = process
    if (!again) return process
    if (state.phase.type !== 'listed') return { ...process, again: false }
    if (list !== undefined) return process
    return { ...process, again: false, list: listJob('reconcile', false, false) }
  }
}

function carriedOut(process: Process, effect: MembershipEffect): Process {
  switch (effect.type) {
    case 'read':
      if (process.read !== 'none') throw new ProcessMistake('a second read while one is under way')
      return { ...process, read: 'pending' }
    case 'renew':
    case 'mark':
    case 'remove':
      if (process.lease !== 'none') throw new ProcessMistake('a second request for the lease while one is under way')
      // The list is compared each interval. That interval is as long as the one of the renewals; the model begins both
      // together.
      return { ...process, lease: 'pending', again: process.again || (effect.type === 'renew' && isListed(process)) }
    case 'write-list':
      if (process.list !== undefined) throw new ProcessMistake('a second write of the list while one is under way')
      return { ...process, list: listJob('leave', effect.mayEmpty, effect.needsOthers) }
    case 'reconcile':
      return { ...process, again: isListed(process) }
    case 'probe':
    case 'report':
      return process
  }
}

function isListed({ state }: Process): boolean {
  return state.phase.type === 'listed'
}

function mastersOf(bits: number): readonly boolean[] {
  return [0, 1, 2].map((master) => (bits & (1 << master)) !== 0)
}

function listJob(kind: ListJob['kind'], mayEmpty: boolean, needsOthers: boolean): ListJob {
  return { kind, stage: 'read', status: 'pending', mayEmpty, needsOthers, base: 0, plan: 0, met: 0, stale: false }
}

function metBy(input: MembershipInput): number {
  if (input.type !== 'leases') return 0
  return input.leases.reduce((bits, { holder }) => bits | (1 << 'abc'.indexOf(holder?.host ?? 'a')), 0)
}

function spanOf({ life }: Process): LifeSpan {
  return { beganMs: Date.UTC(2026, 0, 1, 0, 0, life), nowMs: Date.UTC(2026, 0, 1, 0, 0, 9) }
}

/** Bits of the lives whose departures a text names, `LIVES` bits for each master. */
export function mentionsOf(text: string): number {
  let bits = 0
  if (!text.includes('/')) return bits
  for (const [, host, life] of text.matchAll(/"([abc])(\d)\//g)) {
    bits |= 1 << ('abc'.indexOf(host as string) * LIVES + Number(life))
  }
  return bits
}
