import type { ObjectRef } from '../../src/kube/api.ts'
import { type Service, services } from '../../src/kube/resources.ts'
import { keyOf } from '../../src/kube/store.ts'
import { clusterIpsOf, nodePortsOf } from '../../src/repair/service-claims.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { Allocators, type AllocatorsOptions, Refused, type ServiceRequest } from './repair-allocators.ts'
import type { Making } from './repair-ledger-reader.ts'
import { Ended, type Patience, requestTimeoutMs, type Step, stepsOf } from './repair-pace.ts'

export interface ServiceStorageOptions extends AllocatorsOptions {
  readonly name: string
  readonly clock: Clock
}

/**
 * Stores Services as one kube-apiserver does: in several steps with pauses in between. It may end after any step.
 *
 * Upstream: pkg/registry/core/service/storage/{storage,alloc}.go: allocate, store, then commit or revert; releases wait
 * until the Service is stored.
 */
export class ServiceStorage {
  readonly #options: ServiceStorageOptions
  readonly #allocators: Allocators
  /** The number of the current life. Requests of an earlier life stop. */
  #life = 1

  constructor(options: ServiceStorageOptions) {
    this.#options = options
    this.#allocators = new Allocators(options)
  }

  /**
   * Ends the server with all its running requests, and starts it again. What was allocated and not stored is leaked.
   */
  crash(): void {
    this.#life++
  }

  /** POST. Resolves when the request has ended, even if it failed. */
  create(request: ServiceRequest): Promise<void> {
    return this.#request(request, async (step, making, deadlineMs) => {
      const { type, ports: count } = request
      const spec = { ...(type === 'ExternalName' ? {} : await this.#allocators.addresses(request, step, making)) }
      const nodePorts =
        type === 'ClusterIP' || type === 'ExternalName' ? [] : await this.#allocators.nodePorts(step, making, request)
      const health = type === 'LoadBalancer' ? { healthCheckNodePort: Number(nodePorts.pop()) } : {}
      const object = {
        metadata: { namespace: request.namespace, name: request.name },
        spec: {
          type,
          ports: portsOf(nodePorts, type === 'ExternalName' ? 0 : count),
          ...spec,
          ...external(type),
          ...health,
        },
      }
      await step()
      await this.#store(making, deadlineMs, () => this.#options.api.create(services, object as Service))
    })
  }

  /** PUT with another type. A NodePort Service that remains one gets other NodePorts. */
  update(ref: ObjectRef & { readonly namespace: string }, type: ServiceRequest['type']): Promise<void> {
    return this.#request(ref, async (step, making, deadlineMs) => {
      const { api, ledger } = this.#options
      const live = await api.get(services, ref)
      const had = [...clusterIpsOf(live), ...nodePortsOf(live).map(String)]
      const request: ServiceRequest = { ...ref, type, families: 1, ports: 1 }
      const named = type === 'ExternalName'
      const addresses = named
        ? {}
        : clusterIpsOf(live).length > 0
          ? {
              clusterIP: live.spec?.clusterIP,
              clusterIPs: live.spec?.clusterIPs,
              ipFamilies: live.spec?.ipFamilies,
              ipFamilyPolicy: live.spec?.ipFamilyPolicy,
            }
          : await this.#allocators.addresses(request, step, making)
      const nodePorts = type === 'NodePort' ? await this.#allocators.nodePorts(step, making, request) : []
      const { metadata } = live
      const spec = { type, ports: portsOf(nodePorts, named ? 0 : 1), ...addresses, ...external(type) }
      await step()
      const stored = await this.#store(making, deadlineMs, () => api.update(services, { metadata, spec } as Service))
      const held = new Set([...clusterIpsOf(stored), ...nodePortsOf(stored).map(String)])
      const gone = had.filter((item) => !held.has(item))
      ledger.willRelease(gone)
      await this.#allocators.release(step, gone)
    })
  }

  /** DELETE: deletes the Service first, and then releases what it held. */
  remove(ref: ObjectRef & { readonly namespace: string; readonly patience?: Patience }): Promise<void> {
    return this.#request(ref, async (step) => {
      const { api, ledger } = this.#options
      await step()
      const held = ledger.services.get(keyOf(ref))
      if (held === undefined) return
      const items = [...held.items]
      ledger.willRelease(items)
      await api.delete(services, ref).catch((error: unknown) => {
        for (const item of items) ledger.released(item)
        throw error
      })
      await this.#allocators.release(step, items)
    })
  }

  async #request(
    ref: ObjectRef & { readonly patience?: Patience | undefined },
    work: (step: Step, making: Making, deadlineMs: number) => Promise<void>,
  ): Promise<void> {
    const { ledger, clock, random, coverage } = this.#options
    const deadlineMs = clock.monotonicMs() + requestTimeoutMs
    const making = ledger.begin(keyOf(ref))
    const life = this.#life
    const step = stepsOf({ clock, random, patience: ref.patience, hasEnded: () => life !== this.#life })
    try {
      await work(step, making, deadlineMs)
    } catch (error) {
      if (error instanceof Ended) {
        if (making.items.size > 0) coverage.count('a server ended with a Service half made')
      } else {
        // The server releases what it had allocated. Upstream only logs if that fails.
        const taken = [...making.items]
        ledger.making.delete(making)
        ledger.willRelease(taken)
        if (taken.length > 0) coverage.count('a refused request gave back what it had taken')
        await this.#allocators.release(step, taken).catch(() => {})
      }
    } finally {
      ledger.making.delete(making)
      ledger.version++
    }
  }

  /** Stores a Service. Now and then the write succeeds, but the server only sees a timeout. */
  async #store(making: Making, deadlineMs: number, write: () => Promise<Service>): Promise<Service> {
    const { clock, random, coverage, ledger } = this.#options
    if (clock.monotonicMs() >= deadlineMs) throw new Refused('the request timed out')
    const stored = await write()
    if (deadlineMs - clock.monotonicMs() < requestTimeoutMs - 30_000)
      coverage.count('a Service was stored more than 30 s after its request')
    if (random.next() < 0.02) {
      coverage.count('a Service was stored, and what it holds given back')
      throw new Refused('the request timed out')
    }
    ledger.making.delete(making)
    return stored
  }
}

function portsOf(nodePorts: readonly string[], count: number): readonly object[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `p${index}`,
    port: 80 + index,
    protocol: 'TCP',
    ...(nodePorts[index] === undefined ? {} : { nodePort: Number(nodePorts[index]) }),
  }))
}

function external(type: ServiceRequest['type']): object {
  if (type === 'ExternalName') return { externalName: 'example.com' }
  return type === 'LoadBalancer' ? { externalTrafficPolicy: 'Local' } : {}
}
