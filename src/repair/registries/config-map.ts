import type { KubeApi } from '../../kube/api.ts'
import { isKubeError, KubeError } from '../../kube/errors.ts'
import { Reflector } from '../../kube/reflector.ts'
import { type ConfigMap, configMaps } from '../../kube/resources.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { linkedController } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import { decodeLedger, encodeLedger, ledgerName, ledgerNamespace } from './config-map-ledger.ts'
import {
  type RangeContent,
  type RangeName,
  type RangeRegistry,
  rangeNames,
  type StoredRange,
} from './range-registry.ts'

export interface ConfigMapRangeRegistryOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics?: Metrics | undefined
}

/**
 * A ledger of our own, for servers without an allocator: a ConfigMap in kube-system for each range, `data.range` and
 * `binaryData.data`. Updates are guarded by resourceVersion and leave alone what others put there; one that holds something else is
 * never written.
 *
 * Nothing but these ConfigMaps is read or watched, each by its name, so that an account may be restricted to them. As long as
 * kube-system is missing there are none, and writes are refused in passing.
 */
export class ConfigMapRangeRegistry implements RangeRegistry {
  readonly writable = true
  readonly #options: ConfigMapRangeRegistryOptions

  constructor(options: ConfigMapRangeRegistryOptions) {
    this.#options = options
  }

  where(name: RangeName): string {
    return `ConfigMap ${ledgerNamespace}/${ledgerName(name)}`
  }

  async read(name: RangeName, signal: AbortSignal): Promise<StoredRange> {
    try {
      const ref = { namespace: ledgerNamespace, name: ledgerName(name) }
      return decodeLedger(await this.#options.api.get(configMaps, ref, { signal }))
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return { type: 'absent' }
      throw error
    }
  }

  async write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined> {
    const { api } = this.#options
    const before = this.#beforeOf(name, previous)
    const object = encodeLedger(name, content, before)
    try {
      return decodeLedger(
        before === undefined
          ? await api.create(configMaps, object, { signal })
          : await api.update(configMaps, object, { signal }),
      )
    } catch (error) {
      if (isKubeError(error, 'AlreadyExists', 'Conflict')) return undefined
      // When there was none before, it is the namespace that is not there.
      if (isKubeError(error, 'NotFound') && before !== undefined) return undefined
      throw error
    }
  }

  async watch({ onChange, report, signal }: Parameters<RangeRegistry['watch']>[0]): Promise<void> {
    const { api, clock, random, logger, metrics } = this.#options
    const { controller, unlink } = linkedController(signal)
    const known = new Set<RangeName>()
    const standing = new Set<RangeName>()
    const follow = (name: RangeName): Promise<void> => {
      const tell = (stored: StoredRange): void => onChange({ name, stored })
      const reflector = new Reflector<ConfigMap>({
        api,
        clock,
        random,
        logger,
        metrics,
        resource: configMaps,
        query: { namespace: ledgerNamespace, fieldSelector: `metadata.name=${ledgerName(name)}` },
        sink: {
          // A watch that goes on where it broke off has missed nothing; one that had to begin anew may have.
          replaced() {
            if (known.add(name).size === rangeNames.length) onChange(undefined)
          },
          changed({ type, object }) {
            tell(type === 'DELETED' ? { type: 'absent' } : decodeLedger(object))
          },
          absent() {},
        },
        availability: {
          succeeded() {
            if (standing.has(name)) return
            if (standing.add(name).size === rangeNames.length) report(undefined)
          },
          failed(_source, error) {
            standing.delete(name)
            report(error)
          },
          forget() {},
        },
      })
      return reflector.run(controller.signal)
    }
    try {
      await Promise.all(rangeNames.map(follow))
    } finally {
      unlink()
      controller.abort()
    }
  }

  /** Undefined where nothing must be there yet. */
  #beforeOf(name: RangeName, previous: StoredRange): ConfigMap | undefined {
    if (previous.type === 'absent') return undefined
    if (previous.type === 'unreadable') throw new TypeError(`${this.where(name)} ${previous.reason}`)
    if (previous.fixed !== undefined) throw new KubeError('Refused', `${this.where(name)} ${previous.fixed}`)
    return previous.version as ConfigMap
  }
}
