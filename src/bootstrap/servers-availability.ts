import { isEtcdError } from '../etcd/kv.ts'
import type { Availability, AvailabilityReporter } from '../kube/availability.ts'
import { isKubeError } from '../kube/errors.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import { RequestTimeout } from '../runtime/request-limit.ts'

/** Who hears how requests fare, and can say what is refused for good. */
export type ServersAvailability = AvailabilityReporter &
  Pick<Availability, 'refusalOf'> & {
    /** Of the API server. */
    readonly subscribe: Availability['subscribe']
    /** False while etcd is lost. */
    readonly etcdAvailable: boolean
  }

/** One for each server that can be lost: they have outages of their own. */
export interface Servers {
  readonly api: Availability
  readonly etcd: Availability
  /** A lease store or range registry that the embedding program brought along. */
  readonly own: Availability
  /** The one of them that holds the leases: a request that was given up at its limit was for them. */
  readonly leases: Availability
}

/** Sorts what is reported by the server that it is about, which the class of the error tells; what no server said is the API server's. */
export function availabilityByServer({ api, etcd, own, leases }: Servers): ServersAvailability {
  const all = [api, etcd, own]
  const serverOf = (error: unknown): Availability => {
    if (isEtcdError(error)) return etcd
    if (error instanceof RequestTimeout) return leases
    return error instanceof RemoteError && !isKubeError(error) ? own : api
  }
  return {
    failed(source, error) {
      serverOf(error).failed(source, error)
    },
    succeeded(source) {
      for (const server of all) server.succeeded(source)
    },
    forget(source) {
      for (const server of all) server.forget(source)
    },
    get etcdAvailable() {
      return etcd.available
    },
    subscribe: (handler) => api.subscribe(handler),
    refusalOf(...names) {
      return all.map((server) => server.refusalOf(...names)).find((refusal) => refusal !== undefined)
    },
  }
}

/** Hands on what one part of the program reports, and can say what that part is refused, whatever others are. */
export class PartAvailability implements ServersAvailability {
  readonly #all: ServersAvailability
  readonly #sources = new Set<string>()

  constructor(all: ServersAvailability) {
    this.#all = all
  }

  failed(source: string, error: unknown): void {
    this.#sources.add(source)
    this.#all.failed(source, error)
  }

  succeeded(source: string): void {
    this.#all.succeeded(source)
  }

  forget(source: string): void {
    this.#sources.delete(source)
    this.#all.forget(source)
  }

  get etcdAvailable(): boolean {
    return this.#all.etcdAvailable
  }

  subscribe(handler: (available: boolean) => void): () => void {
    return this.#all.subscribe(handler)
  }

  refusalOf(...sources: readonly string[]): string | undefined {
    return this.#all.refusalOf(...sources)
  }

  /** What is refused for good to this part; undefined when nothing is. */
  refusal(): string | undefined {
    return this.#all.refusalOf(...this.#sources)
  }
}
