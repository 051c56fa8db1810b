import { type Flags, takeOwnOptions } from '../config/resolve.ts'
import { humanDuration } from '../documents/duration.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { InspectedLease } from '../kubernetes-service/masters/inspection.ts'
import { type EvictionPlan, planEviction } from '../kubernetes-service/masters/masters.ts'
import { type Address, AddressError, parseAddress } from '../net/address.ts'
import { sleep } from '../runtime/clock.ts'
import { type MastersReading, type MastersSource, openMasters, READ_INTERVAL_MS } from './masters-source.ts'
import { evictionOptions } from './options.ts'
import { presentable } from './output.ts'
import { stopSignals } from './stop-signals.ts'

/** The command watches undecided leases for at most this many times their longest TTL. */
const WATCHES = 4

/**
 * Removes the leases of a master that is gone, or prints which leases it would remove, and resolves with 0. If it
 * refuses, it prints the reason in one line on standard error, and resolves with 1. It does not remove a lease that was
 * written after the read.
 *
 * Throws an InvalidInputError for mistakes of the command line or the configuration, before it contacts a server.
 */
export async function execute(flags: Flags, argument: string): Promise<number> {
  const { own, rest } = takeOwnOptions(evictionOptions, flags)
  const address = addressOf(argument)
  const source = await openMasters(rest, true)
  const stop = stopSignals()
  try {
    const report = (line: string): boolean => process.stderr.write(`${presentable(line)}\n`)
    const { code, line } = await evictAddress(source, { address: address.text, ...own, report }, stop.signal)
    const out = code === 0 ? process.stdout : process.stderr
    out.write(`${presentable(line)}\n`)
    return code
  } finally {
    await source.close()
    stop.release()
  }
}

export interface Eviction {
  readonly code: 0 | 1
  readonly line: string
}

/** Removes the leases of an address that {@link planEviction} selects. Without `yes`, only describes the removal. */
export async function evictAddress(
  source: MastersSource,
  request: {
    /** In canonical form. */
    readonly address: string
    readonly force: boolean
    readonly yes: boolean
    /** Receives a line about each step that takes long. */
    readonly report: (line: string) => void
  },
  signal: AbortSignal,
): Promise<Eviction> {
  const { address, yes, report } = request
  let watchUntilMs: number | undefined
  for (;;) {
    const reading = await source.read(signal)
    const plan = planEviction({ ...request, ...reading })
    switch (plan.type) {
      case 'absent':
        return watchUntilMs !== undefined
          ? { code: 0, line: `the lease of ${address} has expired` }
          : refused(absent(address, reading, source.place))
      case 'watch':
        if (watchUntilMs === undefined) report(`watching for ${humanDuration(plan.forMs)} whether leases are renewed`)
        watchUntilMs ??= source.clock.monotonicMs() + WATCHES * plan.forMs
        if (source.clock.monotonicMs() > watchUntilMs) {
          return refused('the leases could not be watched without interruption; try again')
        }
        await sleep(source.clock, READ_INTERVAL_MS, signal)
        continue
      case 'refuse':
        return refused(reasonOf(address, plan))
      case 'evict':
        return yes ? remove(source, plan.leases, reading, signal) : wouldRemove(plan.leases)
    }
  }
}

async function remove(
  source: MastersSource,
  leases: readonly InspectedLease[],
  { verdict }: MastersReading,
  signal: AbortSignal,
): Promise<Eviction> {
  for (const lease of leases) {
    if (!(await source.evict(lease, [verdict(lease) === 'stale' ? 'stale' : 'force'], signal))) {
      return refused(`${lease.id} was written or removed meanwhile; run masters again`)
    }
  }
  const back = leases.some((lease) => verdict(lease) !== 'stale') ? '; a live master creates it again' : ''
  return { code: 0, line: `removed ${leases.map(({ id }) => id).join(', ')}${back}` }
}

function wouldRemove(leases: readonly InspectedLease[]): Eviction {
  const words = leases.map((lease) => `${lease.id} at revision ${lease.revision} (${describe(lease)})`)
  return { code: 0, line: `would remove ${words.join(', ')}; use --yes to remove` }
}

function absent(address: string, { listed }: MastersReading, place: string): string {
  return listed?.includes(address)
    ? `${address} has no lease ${place}; it is listed, and masters whose leases are there remove it from the list at their next reconciliation`
    : `${address} has no lease ${place}`
}

function reasonOf(address: string, plan: EvictionPlan & { readonly type: 'refuse' }): string {
  switch (plan.because) {
    case 'last':
      return `${address} is the last one: no other address is listed or has a live lease`
    case 'live': {
      if (plan.leases.every(isWithdrawn)) return `${address} is already withdrawn, and has no lease to remove`
      const words = plan.leases.map(describe).join('; ')
      return `${address} is alive (${words}) and would be added again: stop or withdraw its master, or use --force`
    }
  }
}

/** A Lease object of a withdrawn master is its record. A lease in etcd beside such a record is of a kube-apiserver. */
function isWithdrawn({ holders, leased, object }: InspectedLease): boolean {
  const isRecord = !leased || object !== undefined
  return isRecord && holders.length > 0 && holders.every(({ state }) => state === 'withdrawn')
}

function describe({ holders, life, leased }: InspectedLease): string {
  const who = holders.length === 0 ? 'no holder record' : `held by ${holders.map(({ host }) => host).join(', ')}`
  switch (life.type) {
    case 'never':
      return `${who}, never ends`
    case 'ends':
      return `${who}, ${leased ? '' : 'without a lease, '}ends in ${humanDuration(life.leftMs)} unless renewed`
    case 'renewed':
      return `${who}, for ${humanDuration(life.ttlMs)} at a time`
  }
}

function refused(reason: string): Eviction {
  return { code: 1, line: `refused: ${reason}` }
}

function addressOf(text: string): Address {
  try {
    return parseAddress(text)
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    throw new InvalidInputError([{ where: 'ADDRESS', message: error.message }], { cause: error })
  }
}
