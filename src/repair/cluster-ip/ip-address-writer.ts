import type { KubeApi, ObjectRef } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type IpAddress, ipAddresses, type Service } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import type { Clock } from '../../runtime/clock.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'
import { allEnded } from '../../runtime/together.ts'
import { readServices } from '../live-services.ts'
import { isManagedByAllocator, serviceRefOf } from './ip-address-object.ts'
import type { IpAddressAction } from './ip-address-plan.ts'
import type { ServiceIpAction } from './ip-address-service-plan.ts'
import { holdsAddress } from './service-ip-index.ts'

/** What a plan wants written. */
export type IpAddressWrite = Extract<
  ServiceIpAction | IpAddressAction,
  { readonly type: 'create' | 'recreate' | 'relabel' | 'delete' }
>

/** `done`: it was written. `moot`: somebody else was first. `again`: somebody else has changed what it rests on. */
export type WriteOutcome =
  | { readonly write: IpAddressWrite; readonly result: 'done' | 'moot' }
  | { readonly write: IpAddressWrite; readonly result: 'again' | 'failed'; readonly error: unknown }

export interface IpAddressWriterOptions {
  readonly api: KubeApi
  readonly random: Random
  readonly clock: Clock
  /** The IPAddress as last heard of. */
  readonly current: (name: string) => IpAddress | undefined
  /** The Services that have the address, as last heard of. */
  readonly holdersOf: (name: string) => readonly Service[]
}

const writesAtOnce = 16
/** A server may release an address after it stores the Service that gives it up: so long that may take. */
export const releaseMs = 2_000
/** And so long it may take to store the Service after it has released the address. Who has one for longer gives it up in another request. */
const storeMs = 10_000

/** An IPAddress that was made here. */
interface Made {
  readonly uid: string
  readonly service: ObjectRef
  readonly madeMs: number
  /** Since when nobody is known to have the address, on the monotonic clock. */
  readonly strayMs?: number | undefined
}

/** Carries out what was planned, and takes back what was made for a Service that has gone meanwhile. */
export class IpAddressWriter {
  readonly #options: IpAddressWriterOptions
  /** What was made here and is there still, by name. */
  readonly #made = new Map<string, Made>()
  /** Those of them that were not looked at since. */
  readonly #unverified = new Set<string>()

  constructor(options: IpAddressWriterOptions) {
    this.#options = options
  }

  /**
   * Writes several at once, in an order of this master's own, so that masters that do the same at the same time seldom meet.
   * Every delete and update rests on the very IPAddress that was planned from. Rejects only with the signal's reason.
   */
  async write(writes: readonly IpAddressWrite[], signal: AbortSignal): Promise<readonly WriteOutcome[]> {
    const outcomes: WriteOutcome[] = []
    await inParallel(shuffled(writes, this.#options.random), async (write) => {
      try {
        outcomes.push({ write, result: await this.#execute(write, signal) })
      } catch (error) {
        signal.throwIfAborted()
        const overtaken = isKubeError(error, 'AlreadyExists', 'Conflict', 'NotFound')
        outcomes.push({ write, result: overtaken ? 'again' : 'failed', error })
      }
    })
    return outcomes
  }

  /**
   * Reads the Services for which IPAddresses were made once more, and deletes what was made for one that has gone or given the address up:
   * its server has released the address already, and will not do so again. That is done right after the making, and again for those of `names` that
   * nobody is known to have any more: a server that turns a Service into one without an address releases it before it stores the Service.
   * Returns the names to look at again in {@link releaseMs}. Rejects with a KubeError; what is left then is done the next time.
   */
  async verify(names: Iterable<string>, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const due = new Set(this.#unverified)
    const later = new Set<string>()
    for (const name of names) {
      const stray = this.#strayFor(name)
      if (stray === undefined) continue
      if (stray >= releaseMs) due.add(name)
      else later.add(name)
    }
    const made = [...due].map((name) => [name, this.#made.get(name)] as const).filter(isMade)
    if (made.length === 0) return later
    const live = await readServices(
      this.#options.api,
      made.map(([, { service }]) => service),
      signal,
    )
    await inParallel(made, async ([name, { uid, service }]) => {
      const holder = live.get(keyOf(service))
      if (holder === undefined || !holdsAddress(holder, name)) await this.#takeBack(name, uid, signal)
      this.#unverified.delete(name)
    })
    return later
  }

  /** The IPAddresses that were made here. */
  get made(): Iterable<string> {
    return this.#made.keys()
  }

  /** For how long nobody has had an address whose IPAddress was made here, in milliseconds; undefined for any other. */
  #strayFor(name: string): number | undefined {
    const { clock, current, holdersOf } = this.#options
    const made = this.#made.get(name)
    if (made === undefined || this.#unverified.has(name)) return undefined
    const known = current(name)
    // Somebody else may have taken it over by its labels.
    if (known?.metadata?.uid !== made.uid || !isManagedByAllocator(known)) {
      this.#made.delete(name)
      return undefined
    }
    const nowMs = clock.monotonicMs()
    if (holdersOf(name).length > 0 && nowMs - made.madeMs > storeMs) {
      this.#made.delete(name)
      return undefined
    }
    const strayMs = holdersOf(name).length > 0 ? undefined : (made.strayMs ?? nowMs)
    if (strayMs !== made.strayMs) this.#made.set(name, { ...made, strayMs })
    return strayMs === undefined ? undefined : nowMs - strayMs
  }

  async #execute(write: IpAddressWrite, signal: AbortSignal): Promise<'done' | 'moot'> {
    const { api, current } = this.#options
    const { name = '' } = write.ipAddress.metadata ?? {}
    const known = current(name)
    switch (write.type) {
      case 'create':
        if (known !== undefined) return 'moot'
        await this.#create(name, write.ipAddress, signal)
        return 'done'
      case 'recreate':
        if (!isSame(known, write.old)) return 'moot'
        await api.delete(ipAddresses, { name }, { ...preconditions(write.old), signal })
        await this.#create(name, write.ipAddress, signal)
        return 'done'
      case 'relabel':
        if (!isSame(known, write.ipAddress)) return 'moot'
        await api.update(ipAddresses, write.ipAddress, { signal })
        return 'done'
      case 'delete':
        if (!isSame(known, write.ipAddress)) return 'moot'
        await api.delete(ipAddresses, { name }, { ...preconditions(write.ipAddress), signal })
        return 'done'
    }
  }

  async #create(name: string, ipAddress: IpAddress, signal: AbortSignal): Promise<void> {
    const made = await this.#options.api.create(ipAddresses, ipAddress, { signal })
    const service = serviceRefOf(made)
    const uid = made.metadata?.uid
    if (service === undefined || uid === undefined) return
    this.#made.set(name, { uid, service, madeMs: this.#options.clock.monotonicMs() })
    this.#unverified.add(name)
  }

  async #takeBack(name: string, uid: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.api.delete(ipAddresses, { name }, { uid, signal })
    } catch (error) {
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error
    }
    this.#made.delete(name)
  }
}

function isMade(entry: readonly [string, Made | undefined]): entry is readonly [string, Made] {
  return entry[1] !== undefined
}

function isSame(known: IpAddress | undefined, planned: IpAddress): boolean {
  return (
    known?.metadata?.uid === planned.metadata?.uid &&
    known?.metadata?.resourceVersion === planned.metadata?.resourceVersion
  )
}

function preconditions({ metadata }: IpAddress): { readonly uid?: string; readonly resourceVersion?: string } {
  const { uid, resourceVersion } = metadata ?? {}
  return { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) }
}

function shuffled<T>(items: readonly T[], random: Random): readonly T[] {
  const order = [...items]
  for (let last = order.length - 1; last > 0; last--) {
    const other = randomInteger(random, last + 1)
    ;[order[last], order[other]] = [order[other] as T, order[last] as T]
  }
  return order
}

/** Rejects with what `work` rejected with first, when all that was begun has ended. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T)
  }
  await allEnded(Array.from({ length: Math.min(writesAtOnce, items.length) }, worker))
}
