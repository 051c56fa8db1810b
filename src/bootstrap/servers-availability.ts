import { isEtcdError } from '../etcd/kv.ts'
import type { Availability, AvailabilityReporter } from '../kube/availability.ts'
import { isKubeError } from '../kube/errors.ts'
import { RemoteError } from '../runtime/errors.ts'
import { RequestTimeout } from '../runtime/request-limit.ts'
import type { Outages } from '../telemetry/outages.ts'

/**
 * Records the results of requests, and knows the permanent refusals. `outages` and `subscribe` concern the API server.
 */
export type ServersAvailability = AvailabilityReporter &
  Pick<Availability, 'refusalOf'> & {
    readonly subscribe: Availability['subscribe']
    readonly outages: Outages
    readonly leaseOutages: Outages
    /** False during an outage of etcd. */
    readonly etcdAvailable: boolean
  }

/** The availability of each server. Each has outages of its own. */
export interface Servers {
  readonly api: Availability
  readonly etcd: Availability
  /** The lease store or range registry of the embedding program. */
  readonly own: Availability
  /**
   * The one of these three that holds the leases. Each {@link RequestTimeout} counts as its failure, because only
   * requests for leases reject with that error.
   */
  readonly leases: Availability
}

/**
 * Passes each failure on to the server that the class of the error determines, by default the API server. A report of a
 * success does not name a server, so each success is passed on to all servers.
 */
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
    // Only watches of the API server report this.
    interrupted: (source) => api.interrupted(source),
    succeeded(source) {
      for (const server of all) server.succeeded(source)
    },
    forget(source) {
      for (const server of all) server.forget(source)
    },
    get etcdAvailable() {
      return etcd.available
    },
    outages: api.outages,
    leaseOutages: leases.outages,
    subscribe: (handler) => api.subscribe(handler),
    refusalOf(...names) {
      for (const server of all) {
        const refusal = server.refusalOf(...names)
        if (refusal !== undefined) return refusal
      }
      return undefined
    },
  }
}

/** Passes on the reports of one part of the program, and knows that part's own refusals. */
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

  interrupted(source: string): void {
    this.#sources.add(source)
    this.#all.interrupted(source)
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

  get outages(): Outages {
    return this.#all.outages
  }

  get leaseOutages(): Outages {
    return this.#all.leaseOutages
  }

  subscribe(handler: (available: boolean) => void): () => void {
    return this.#all.subscribe(handler)
  }

  refusalOf(...sources: readonly string[]): string | undefined {
    return this.#all.refusalOf(...sources)
  }

  refusal(): string | undefined {
    return this.#all.refusalOf(...this.#sources)
  }
}
