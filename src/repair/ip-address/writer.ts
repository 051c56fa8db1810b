import type { KubeApi, ObjectRef } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type IpAddress, ipAddresses, type Service, withKind } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import type { Clock } from '../../runtime/clock.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'
import { allEnded } from '../../runtime/signals.ts'
import { readServices } from '../live-services.ts'
import { MAX_RELEASE_DELAY_MS, MAX_STORE_DELAY_MS } from '../repair.ts'
import { isManagedByAllocator, serviceRefOf, withAllocatorLabels } from './ip-address.ts'
import type { IpAddressAction, ServiceIpAction } from './plan.ts'
import { holdsAddress } from './service-ips.ts'

export type IpAddressWrite = Extract<
  ServiceIpAction | IpAddressAction,
  { readonly type: 'create' | 'recreate' | 'relabel' | 'delete' }
>

/** `moot`: the IPAddress changed before the write was sent. `again`: refused, because another client was faster. */
export type WriteOutcome =
  | { readonly write: IpAddressWrite; readonly result: 'done' | 'moot' }
  | { readonly write: IpAddressWrite; readonly result: 'again' | 'failed'; readonly error: unknown }

/** `current` and `holdersOf` return what the informers have received. */
export interface IpAddressWriterOptions {
  readonly api: KubeApi
  readonly random: Random
  readonly clock: Clock
  readonly current: (name: string) => IpAddress | undefined
  readonly holdersOf: (name: string) => readonly Service[]
}

const WRITES_AT_ONCE = 16

interface Made {
  readonly uid: string
  readonly service: ObjectRef
  readonly madeMs: number
  /**
   * Since when the informer has shown no Service with the address, on the monotonic clock; undefined while it shows
   * one.
   */
  readonly orphanedMs?: number | undefined
}

/** Carries out the planned writes. Deletes an IPAddress that it created if the Service has gone meanwhile. */
export class IpAddressWriter {
  readonly #options: IpAddressWriterOptions
  /** IPAddresses that this process created and may have to delete again, by name. */
  readonly #made = new Map<string, Made>()
  /** The names of the IPAddresses created since {@link verify} last checked them. */
  readonly #unverified = new Set<string>()

  constructor(options: IpAddressWriterOptions) {
    this.#options = options
  }

  /**
   * Writes in random order, so that masters with the same plan rarely conflict. Every delete and update is guarded by
   * the uid and resourceVersion in the plan. Rejects only with the signal's reason.
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
   * Reads the Services of created IPAddresses once more, and deletes each IPAddress whose Service is gone or gave the
   * address up: the server released the address before this IPAddress was created, so the server will not delete it.
   *
   * Checks the IPAddresses that were created since the last call. Also checks those of `names` that have had no known
   * Service for {@link MAX_RELEASE_DELAY_MS}: until then the server may still delete them itself. Returns the names to
   * check again after that time. Rejects like {@link readServices}, or with the KubeError of a delete.
   */
  async verify(names: Iterable<string>, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const due = new Set(this.#unverified)
    const later = new Set<string>()
    for (const name of names) {
      const orphanedForMs = this.#orphanedForMs(name)
      if (orphanedForMs === undefined) continue
      if (orphanedForMs >= MAX_RELEASE_DELAY_MS) due.add(name)
      else later.add(name)
    }
    const made = [...due].flatMap((name) => {
      const one = this.#made.get(name)
      return one === undefined ? [] : [{ name, ...one }]
    })
    if (made.length === 0) return later
    const refs = made.map(({ service }) => service)
    const live = await readServices(this.#options.api, refs, signal)
    await inParallel(made, async ({ name, uid, service }) => {
      const holder = live.get(keyOf(service))
      if (holder === undefined || !holdsAddress(holder, name)) await this.#takeBack(name, uid, signal)
      this.#unverified.delete(name)
    })
    return later
  }

  /** The names of the IPAddresses that this process created and may have to delete again. */
  get made(): Iterable<string> {
    return this.#made.keys()
  }

  /**
   * For how long a created IPAddress is known to have no Service, in milliseconds; undefined if it has one or is not to
   * be deleted again. Forgets an IPAddress that belongs to another client, or whose Service has held it for long
   * enough.
   */
  #orphanedForMs(name: string): number | undefined {
    const { clock, current, holdersOf } = this.#options
    const made = this.#made.get(name)
    if (made === undefined || this.#unverified.has(name)) return undefined
    const known = current(name)
    // Another client may have taken the IPAddress over by changing its labels.
    if (known?.metadata?.uid !== made.uid || !isManagedByAllocator(known)) {
      this.#made.delete(name)
      return undefined
    }
    const nowMs = clock.monotonicMs()
    if (holdersOf(name).length > 0 && nowMs - made.madeMs > MAX_STORE_DELAY_MS) {
      this.#made.delete(name)
      return undefined
    }
    const orphanedMs = holdersOf(name).length > 0 ? undefined : (made.orphanedMs ?? nowMs)
    if (orphanedMs !== made.orphanedMs) this.#made.set(name, { ...made, orphanedMs })
    return orphanedMs === undefined ? undefined : nowMs - orphanedMs
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
        return await this.#relabel(write.ipAddress, signal)
      case 'delete':
        if (!isSame(known, write.ipAddress)) return 'moot'
        await api.delete(ipAddresses, { name }, { ...preconditions(write.ipAddress), signal })
        return 'done'
    }
  }

  /** Reads the whole object first, because the copy has only some fields. A list needs no permission to `get`. */
  async #relabel(planned: IpAddress, signal: AbortSignal): Promise<'done' | 'moot'> {
    const { api } = this.#options
    const fieldSelector = `metadata.name=${planned.metadata?.name ?? ''}`
    const { items } = await api.list(ipAddresses, { fieldSelector, signal })
    const whole = items.find((item) => isSame(item, planned))
    if (whole === undefined) return 'moot'
    // Not every server derives a missing kind from the path.
    await api.update(ipAddresses, withKind(ipAddresses, withAllocatorLabels(whole)), { signal })
    return 'done'
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

/**
 * Works on a few items at a time. Rejects with the first rejection of `work`, after everything that began has ended.
 */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T)
  }
  await allEnded(Array.from({ length: Math.min(WRITES_AT_ONCE, items.length) }, worker))
}
