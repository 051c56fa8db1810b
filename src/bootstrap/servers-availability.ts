import { isEtcdError } from '../etcd/kv.ts'
import type { Availability, AvailabilityReporter } from '../kube/availability.ts'

/** Who hears how requests fare, and can say what is refused for good. */
export type ServersAvailability = AvailabilityReporter &
  Pick<Availability, 'refusalOf'> & {
    /** Of the API server. */
    readonly subscribe: Availability['subscribe']
    /** False while etcd is lost. */
    readonly etcdAvailable: boolean
  }

/** Sorts what is reported by the server that it is about: the API server and etcd have outages of their own. */
export function availabilityByServer(api: Availability, etcd: Availability): ServersAvailability {
  return {
    failed(source, error) {
      if (isEtcdError(error)) etcd.failed(source, error)
      else api.failed(source, error)
    },
    succeeded(source) {
      api.succeeded(source)
      etcd.succeeded(source)
    },
    forget(source) {
      api.forget(source)
      etcd.forget(source)
    },
    get etcdAvailable() {
      return etcd.available
    },
    subscribe: (handler) => api.subscribe(handler),
    refusalOf: (...sources) => api.refusalOf(...sources) ?? etcd.refusalOf(...sources),
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
