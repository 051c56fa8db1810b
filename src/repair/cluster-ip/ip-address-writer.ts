import type { KubeApi, ObjectRef } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type IpAddress, ipAddresses } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'
import { readServices } from '../live-services.ts'
import { serviceRefOf } from './ip-address-object.ts'
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
  /** The IPAddress as last heard of. */
  readonly current: (name: string) => IpAddress | undefined
}

const writesAtOnce = 16

/** Carries out what was planned, and takes back what was made for a Service that has gone meanwhile. */
export class IpAddressWriter {
  readonly #options: IpAddressWriterOptions
  /** What was made here and not looked at since, by name. */
  readonly #unverified = new Map<string, { readonly uid: string; readonly service: ObjectRef }>()

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
   * its server has released the address already, and will not do so again. Rejects with a KubeError; what is left then is done the next time.
   */
  async verify(signal: AbortSignal): Promise<void> {
    const made = [...this.#unverified]
    if (made.length === 0) return
    const refs = made.map(([, { service }]) => service)
    const live = await readServices(this.#options.api, refs, signal)
    await inParallel(made, async ([name, { uid, service }]) => {
      const holder = live.get(keyOf(service))
      if (holder === undefined || !holdsAddress(holder, name)) await this.#takeBack(name, uid, signal)
      this.#unverified.delete(name)
    })
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
    if (service !== undefined && uid !== undefined) this.#unverified.set(name, { uid, service })
  }

  async #takeBack(name: string, uid: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.api.delete(ipAddresses, { name }, { uid, signal })
    } catch (error) {
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error
    }
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

/** Rejects with what `work` rejected with first, when all that was begun has ended. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T)
  }
  const ends = await Promise.allSettled(Array.from({ length: Math.min(writesAtOnce, items.length) }, worker))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
