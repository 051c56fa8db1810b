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
  Pick<Availability, 'refusalOf' | 'subscribe' | 'outages'> & {
    readonly leaseOutages: Outages
    /** False during an outage of etcd. */
    readonly isEtcdAvailable: () => boolean
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
 * Reports each failure to the {@link Availability} of the server that the class of the error determines: the API server
 * by default. A report of a success does not name a server, so each success is reported to all of them.
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
    isEtcdAvailable: () => etcd.available,
    outages: api.outages,
    leaseOutages: leases.outages,
    subscribe: (handler) => api.subscribe(handler),
    refusalOf: (...names) => api.refusalOf(...names) ?? etcd.refusalOf(...names) ?? own.refusalOf(...names),
  }
}

/** Passes on the reports of one part of the program, and knows that part's own refusals. */
export function partAvailability(
  all: ServersAvailability,
): ServersAvailability & { readonly refusal: () => string | undefined } {
  const sources = new Set<string>()
  return {
    ...all,
    failed(source, error) {
      sources.add(source)
      all.failed(source, error)
    },
    interrupted(source) {
      sources.add(source)
      all.interrupted(source)
    },
    forget(source) {
      sources.delete(source)
      all.forget(source)
    },
    refusal: () => all.refusalOf(...sources),
  }
}
