import { formatDuration } from '../../documents/duration.ts'
import { eventOf, referenceIn } from '../../kube/event-object.ts'
import { writerBetween } from '../../kube/managed-fields.ts'
import {
  type EndpointSlice,
  type Endpoints,
  isNewer,
  type KubeObject,
  type Resource,
  type Service,
} from '../../kube/resources.ts'
import type { Cancel, Clock } from '../../runtime/clock.ts'
import { addressesInSlice, portTexts } from '../identity.ts'
import {
  type Contention,
  type ContentionInput,
  ContentionReports,
  type ContentionReportsOptions,
  type Contested,
  calm,
  correctionDueMs,
  FIGHT,
  nextCheckMs,
  nextContention,
} from './contention.ts'

interface ForeignOverwritesOptions extends ContentionReportsOptions {
  readonly clock: Clock
  /** The longest wait between two corrections: the reconcile interval. With 10 s we are never slower than upstream. */
  readonly intervalMs: number
}

/** A write that corrected an overwrite by another writer. */
export interface Correction {
  /** The field manager of the other writer; undefined if it left no trace. */
  readonly writer: string | undefined
  /** Whether the correction is part of a fight, which is reported as a whole. */
  readonly isFight: boolean
}

interface Track {
  readonly resource: Resource<KubeObject>
  readonly metadata: { readonly namespace: string; readonly name: string }
  contention: Contention
  /** The last state that was in sync, whether written or read; undefined before there was one. */
  inSync: { readonly content: string; readonly object: KubeObject | undefined } | undefined
  /** Whether the next write is a correction. */
  isCorrection: boolean
  found: KubeObject | undefined
  /** The last other writer that left a trace, and when the trace was found. */
  trace: { readonly writer: string; readonly foundMs: number } | undefined
}

/**
 * Detects which writers overwrite managed objects, and delays corrections in a fight: see {@link nextContention}.
 *
 * A write is a correction if it restores content that was in sync before and that another writer changed. A write for
 * another reason, such as a new list of masters, is made at once even during a fight. Corrections wait only from a call
 * of {@link attach} until the function that it returns is called.
 */
export class ForeignOverwrites {
  readonly #options: ForeignOverwritesOptions
  readonly #reports: ContentionReports
  readonly #tracks = new Map<string, Track>()
  #wake: (() => void) | undefined
  #cancel: Cancel = () => {}

  constructor(options: ForeignOverwritesOptions) {
    this.#options = options
    this.#reports = new ContentionReports(options)
  }

  /**
   * Lets corrections wait from now on, and calls `wake` when one is due or a fight may be over. After a call of the
   * returned function no write waits, because a shutdown must not wait.
   */
  attach(wake: () => void): () => void {
    this.#wake = wake
    return () => {
      this.#wake = undefined
      this.#cancel()
      for (const track of this.#tracks.values()) {
        if (track.contention.phase === 'backing-off') this.#reports.ended(track.resource.kind)
        track.contention = calm
      }
    }
  }

  /** Called when the object was found in sync. A state older than the known one is ignored. */
  inSync(resource: Resource<KubeObject>, object: KubeObject): void {
    const track = this.#track(resource, object)
    const known = track.inSync?.object
    if (known !== object) {
      if (isNewer(known, object)) return
      track.inSync = { content: contentOf(object), object }
    }
    this.#next(track, 'in-sync')
  }

  /** Called when another client has deleted an object before this master could. Its absence then counts as in sync. */
  gone(resource: Resource<KubeObject>, object: KubeObject | undefined): void {
    const track = this.#track(resource, object)
    track.inSync = { content: contentOf(undefined), object: undefined }
    track.isCorrection = false
    track.found = undefined
  }

  /** Whether a difference in the cache must stay for now. `wanted`: undefined if `found` must not exist. */
  isWaiting(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    if (track.contention.phase === 'calm' || !this.#isCorrection(track, wanted)) return false
    return this.#mustWait(track)
  }

  /** Called right before a write, with the object as just read. Returns whether the write must wait. */
  mustWait(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    track.isCorrection = this.#isCorrection(track, wanted)
    track.found = found
    if (!track.isCorrection) return false
    track.trace = this.#traceOf(track)
    return this.#mustWait(track)
  }

  /**
   * Called after the write for which {@link mustWait} was called. Returns the correction; undefined if the write
   * corrected nothing. `object`: the desired object, or the deleted one. `stored`: undefined for a deletion.
   */
  written(
    resource: Resource<KubeObject>,
    object: KubeObject | undefined,
    stored: KubeObject | undefined,
  ): Correction | undefined {
    const track = this.#track(resource, object)
    const isFight = track.contention.phase === 'backing-off'
    const correction = track.isCorrection ? { writer: this.#writerOf(track), isFight } : undefined
    track.inSync = { content: contentOf(stored && object), object: stored }
    track.isCorrection = false
    track.found = undefined
    this.#next(track, correction === undefined ? 'written' : 'corrected')
    if (correction !== undefined) this.#reports.corrected(resource.kind, correction.writer)
    return correction
  }

  #isCorrection({ inSync }: Track, wanted: KubeObject | undefined): boolean {
    return inSync?.content === contentOf(wanted)
  }

  /** Whether a correction must wait. Also records that the object was overwritten, if corrections may wait at all. */
  #mustWait(track: Track): boolean {
    if (this.#wake === undefined) return false
    this.#next(track, 'undone')
    return this.#options.clock.monotonicMs() < correctionDueMs(track.contention, this.#options.intervalMs)
  }

  #writerOf({ inSync, found }: Track): string | undefined {
    if (found === undefined) return undefined
    const before = inSync?.object
    const isSame = before?.metadata?.uid === found.metadata?.uid
    return writerBetween(isSame ? before : undefined, found)?.manager
  }

  /** The writer to name for the present overwrites. An older trace may be that of a writer that has long stopped. */
  #traceOf(track: Track): Track['trace'] {
    const nowMs = this.#options.clock.monotonicMs()
    const writer = this.#writerOf(track)
    if (writer !== undefined) return { writer, foundMs: nowMs }
    const { trace } = track
    return trace !== undefined && nowMs - trace.foundMs < FIGHT.windowMs ? trace : undefined
  }

  #next(track: Track, input: ContentionInput): void {
    const before = track.contention
    const nowMs = this.#options.clock.monotonicMs()
    track.contention = nextContention(before, input, nowMs)
    if (track.contention === before) return
    this.#reports.changed(this.#contested(track), before, track.contention, nowMs)
    this.#schedule()
  }

  /** Events are found by their object's uid, so they refer to the last known state of the object. */
  #contested({ resource, metadata, inSync, found, trace }: Track): Contested {
    const { kind } = resource
    const writer = trace?.writer
    const object = `${metadata.namespace}/${metadata.name}`
    const regarding = referenceIn(resource, found ?? inSync?.object ?? { metadata })
    return {
      kind,
      fields: { kind, object, writer },
      backingOff: 'another writer keeps overwriting this object; backing off',
      calmAgain: 'other writers no longer overwrite this object; back-off ended',
      event: ({ corrections, withinMs }) => {
        const [who, remedy] = describeWriter(kind, writer)
        const what = `${kind} ${object} was corrected ${corrections} times in ${formatDuration(withinMs)} and overwritten each time by ${who}`
        const note = `${what}; from now on it is corrected at growing intervals. ${remedy}.`
        return eventOf('ForeignOverwrite', { regarding, note })
      },
    }
  }

  #schedule(): void {
    this.#cancel()
    const { clock, intervalMs } = this.#options
    const checks = [...this.#tracks.values()].map(({ contention }) => nextCheckMs(contention, intervalMs))
    const nextMs = Math.min(...checks.filter((atMs) => atMs !== undefined))
    const wake = this.#wake
    if (wake === undefined || !Number.isFinite(nextMs)) return
    // At least 1 ms: sums of milliseconds are rounded, and a check that comes just too early must not repeat at once.
    this.#cancel = clock.schedule(Math.max(nextMs - clock.monotonicMs(), 1), () => {
      // A fight also ends by time alone, without another check of the object.
      for (const track of this.#tracks.values()) {
        const { contention } = track
        if (contention.phase === 'backing-off' && contention.inSyncSinceMs !== undefined) this.#next(track, 'in-sync')
      }
      wake()
    })
  }

  #track(resource: Resource<KubeObject>, object: KubeObject | undefined): Track {
    const { name = '', namespace = '' } = object?.metadata ?? {}
    const key = `${resource.plural} ${namespace}/${name}`
    const known = this.#tracks.get(key)
    if (known !== undefined) return known
    const track: Track = {
      resource,
      metadata: { namespace, name },
      contention: calm,
      inSync: undefined,
      isCorrection: false,
      found: undefined,
      trace: undefined,
    }
    this.#tracks.set(key, track)
    return track
  }
}

/** The managed content of a Service, Endpoints or an EndpointSlice, as text, for comparison. Pure. */
export function contentOf(object: KubeObject | undefined): string {
  if (object === undefined) return 'absent'
  const { subsets } = object as Endpoints
  const { addressType, ports } = object as EndpointSlice
  const { spec } = object as Service
  if (spec !== undefined) return JSON.stringify([spec.type, spec.ipFamilyPolicy, portTexts(spec.ports)])
  if (addressType !== undefined) {
    return JSON.stringify([addressType, addressesInSlice(object as EndpointSlice).toSorted(), portTexts(ports)])
  }
  const listed = (subsets ?? []).map((subset) => [
    (subset.addresses ?? []).map(({ ip }) => ip).sort(),
    portTexts(subset.ports),
  ])
  return JSON.stringify(listed)
}

/** The writer that keeps overwriting a managed object, and the remedy, in the words of an Event. */
function describeWriter(kind: string, writer: string | undefined): readonly [who: string, remedy: string] {
  if (writer === undefined) return ['a writer without a trace in managedFields', "The API server's audit log names it"]
  if (writer === OWN_MANAGER) {
    return ['another apiserver-bootstrap', 'Give all masters of the cluster the same options and the same lease store']
  }
  const remedy =
    isReconciler(writer) && kind !== 'Service'
      ? `It is an API server whose own endpoint reconciler is on: ${TURN_OFF}`
      : 'Stop it, or leave kubernetes-service out of --controllers here'
  return [`field manager ${writer}`, remedy]
}

/** The field manager of this program's writes, and of the writes of other masters. */
export const OWN_MANAGER = 'apiserver-bootstrap'
export const TURN_OFF =
  'start it with --endpoint-reconciler-type=none, or give this program --etcd-servers so that both use one lease store'

/** Field managers of kube-apiserver's own reconciler: kube-apiserver itself, and programs that contain it. */
const RECONCILERS: readonly string[] = ['kube-apiserver', 'k3s']

/** Overwrites that are this far apart, or further, count as different series. */
const WINDOW_MS = 60_000
/**
 * A series of overwrites is reported if it lasts at least this long. A reconciler with other leases overwrites again
 * after its interval of ten seconds. But several kube-apiservers of this fleet may each write an outdated list once.
 */
const LASTING_MS = 5_000
/** A reconciler that returns after this long is reported again. */
const FORGET_MS = 600_000

export function isReconciler(manager: string): boolean {
  return RECONCILERS.includes(manager)
}

/**
 * Detects an endpoint reconciler with other leases that overwrites the addresses repeatedly, but too rarely for a
 * fight. That reconciler is reported once, and again if it returns after ten minutes.
 */
export class OtherReconciler {
  #firstMs = Number.NEGATIVE_INFINITY
  #latestMs = Number.NEGATIVE_INFINITY
  #reported = false

  /** Called after an overwrite at `nowMs`, on the monotonic clock. Returns whether to report the reconciler now. */
  overwrote(nowMs: number): boolean {
    const sinceMs = nowMs - this.#latestMs
    this.#latestMs = nowMs
    if (sinceMs >= WINDOW_MS) this.#firstMs = nowMs
    if (this.#reported && sinceMs < FORGET_MS) return false
    this.#reported = nowMs - this.#firstMs >= LASTING_MS
    return this.#reported
  }
}
