import type { KubeApi } from '../../kube/api.ts'
import { isKubeError, KubeError } from '../../kube/errors.ts'
import { Reflector } from '../../kube/reflector.ts'
import { type ConfigMap, configMaps } from '../../kube/resources.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { linkedController } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import {
  type RangeContent,
  type RangeName,
  type RangeRegistry,
  rangeNames,
  type StoredRange,
} from './range-registry.ts'

interface ConfigMapRangeRegistryOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics?: Metrics | undefined
}

/**
 * Stores bitmaps for servers without an allocator. Each range has a ConfigMap in kube-system, its *ledger*. Updates are
 * guarded by resourceVersion and preserve other fields. A ConfigMap that is not a valid ledger is never written.
 *
 * Reads and watches name one ConfigMap, so an account may be restricted to these ConfigMaps. While the namespace
 * kube-system is missing, all ranges are absent, and a write rejects with `NotFound`.
 */
export class ConfigMapRangeRegistry implements RangeRegistry {
  readonly writable = true
  readonly ordered = true
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
      // The ConfigMap was deleted meanwhile. If the write was to create it, the namespace is missing, which is an
      // error.
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
      const changed = (stored: StoredRange): void => onChange({ name, stored })
      const reflector = new Reflector<ConfigMap>({
        api,
        clock,
        random,
        logger,
        metrics,
        resource: configMaps,
        query: { namespace: ledgerNamespace, fieldSelector: `metadata.name=${ledgerName(name)}` },
        sink: {
          // A watch that starts again with a new list may have missed changes. A watch that resumes has missed none.
          replaced() {
            if (known.add(name).size === rangeNames.length) onChange(undefined)
          },
          changed({ type, object }) {
            changed(type === 'DELETED' ? { type: 'absent' } : decodeLedger(object))
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
          interrupted() {},
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

  /** The ConfigMap that a write updates; undefined if the write must create it. */
  #beforeOf(name: RangeName, previous: StoredRange): ConfigMap | undefined {
    if (previous.type === 'absent') return undefined
    if (previous.type === 'unreadable') throw new TypeError(`${this.where(name)} ${previous.reason}`)
    if (previous.fixed !== undefined) throw new KubeError('Refused', `${this.where(name)} ${previous.fixed}`)
    return previous.version as ConfigMap
  }
}

const ledgerNamespace = 'kube-system'

function ledgerName(name: RangeName): string {
  return `apiserver-bootstrap-${name}`
}

/** Decodes a ledger. The `version` of the result is the whole object. Pure. */
export function decodeLedger(object: ConfigMap): StoredRange {
  const range = object.data?.range
  // Some servers return an empty bitmap as null.
  const text: string | null | undefined = object.binaryData?.data
  if (typeof range !== 'string' || range === '' || text === undefined) {
    return { type: 'unreadable', reason: 'is not a valid range allocation: data.range or binaryData.data is missing' }
  }
  const data = Buffer.from(text ?? '', 'base64')
  if (data.toString('base64') !== (text ?? '')) {
    return { type: 'unreadable', reason: 'is not a valid range allocation: binaryData.data is not valid base64' }
  }
  const revision = object.metadata?.resourceVersion ?? ''
  const found = { type: 'range', range, data, revision, version: object } as const
  return object.immutable === true ? { ...found, fixed: 'is marked immutable' } : found
}

/** The ledger with this content. Other fields of `previous` stay; undefined makes a new ConfigMap. Pure. */
export function encodeLedger(name: RangeName, content: RangeContent, previous: ConfigMap | undefined): ConfigMap {
  return {
    ...previous,
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      ...previous?.metadata,
      name: ledgerName(name),
      namespace: ledgerNamespace,
      labels: { ...previous?.metadata?.labels, 'app.kubernetes.io/managed-by': 'apiserver-bootstrap' },
    },
    data: { ...previous?.data, range: content.range },
    binaryData: { ...previous?.binaryData, data: Buffer.from(content.data).toString('base64') },
  }
}
