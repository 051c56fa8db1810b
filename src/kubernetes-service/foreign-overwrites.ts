import { type EventSink, type ObjectReference, referenceIn } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import type { KubeObject } from '../kube/json.ts'
import { writerBetween } from '../kube/managed-fields.ts'
import { isNewer } from '../kube/resource-version.ts'
import type { EndpointSlice, Endpoints, Resource, Service } from '../kube/resources.ts'
import type { Cancel, Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import {
  type Contention,
  type ContentionInput,
  type ContentionLimits,
  calm,
  contentionLimits,
  correctionDueMs,
  nextContention,
  nextLookMs,
} from './contention.ts'
import { portTexts } from './identity.ts'
import { isReconciler, OtherReconciler } from './other-reconciler.ts'
import { OverwriteMetrics } from './overwrite-metrics.ts'
import { otherReconcilerNote, overwriteNote } from './overwrite-notes.ts'

export interface ForeignOverwritesOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
  readonly events: EventSink
  /** The longest wait between two corrections, in milliseconds: never slower than upstream, which looks once an interval. */
  readonly intervalMs: number
}

/** A write that put right what somebody else had undone. */
export interface Correction {
  /** The field manager of who had undone it; undefined where it left no trace. */
  readonly writer: string | undefined
  /** This goes on and on, and was told of as a whole. */
  readonly isFight: boolean
}

/** One object that is kept. */
interface Track {
  readonly resource: Resource<KubeObject>
  readonly metadata: { readonly namespace: string; readonly name: string }
  contention: Contention
  /** The last state that was right, as it was written here or seen; undefined before there was one. */
  right: { readonly content: string; readonly object: KubeObject | undefined } | undefined
  /** Of the write that is about to be made. */
  isCorrection: boolean
  found: KubeObject | undefined
  /** Who undid it last, of those that left a trace. */
  writer: string | undefined
}

/**
 * Notices who undoes what is written here, and keeps from fighting: see {@link nextContention}.
 *
 * A write corrects a foreign overwrite when what it makes was right before, and somebody else's write was not. A list of masters that
 * has changed with the leases was not, so that it is written at once, whatever is fought over. While nobody is {@link attach}ed
 * nothing waits.
 */
export class ForeignOverwrites {
  readonly #options: ForeignOverwritesOptions
  readonly #limits: ContentionLimits
  readonly #metrics: OverwriteMetrics
  readonly #tracks = new Map<string, Track>()
  readonly #other = new OtherReconciler()
  #wake: (() => void) | undefined
  #cancel: Cancel = () => {}

  constructor(options: ForeignOverwritesOptions) {
    this.#options = options
    this.#limits = contentionLimits(options.intervalMs)
    this.#metrics = new OverwriteMetrics(options.metrics)
  }

  /**
   * From now on corrections may have to wait; `wake` is called when one is due, or when a look may find that a fight is over.
   * What is returned ends that: leaving writes are not held up.
   */
  attach(wake: () => void): () => void {
    this.#wake = wake
    return () => {
      this.#wake = undefined
      this.#cancel()
      for (const track of this.#tracks.values()) {
        track.contention = calm
        this.#metrics.backsOff(track.resource.kind, this.#isAnyBackingOff(track.resource.kind))
      }
    }
  }

  /** The object was found as it should be. One that is older than what is known says nothing. */
  right(resource: Resource<KubeObject>, object: KubeObject): void {
    const track = this.#track(resource, object)
    const known = track.right?.object
    if (known !== object) {
      if (isNewer(known, object)) return
      track.right = { content: wantedContent(object), object }
    }
    this.#next(track, 'right')
  }

  /** The object was to be deleted, and another was faster: that it is not there is right. */
  gone(resource: Resource<KubeObject>, object: KubeObject | undefined): void {
    const track = this.#track(resource, object)
    track.right = { content: wantedContent(undefined), object: undefined }
    track.isCorrection = false
    track.found = undefined
  }

  /** Whether what a cache shows wrong must be left so for now. `wanted` undefined: the object `found` is not to be there. */
  isWaiting(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    if (track.contention.phase === 'calm' || !isCorrection(track, wanted)) return false
    return this.#mustWait(track)
  }

  /** Whether it is put right at growing intervals only. */
  isFight(resource: Resource<KubeObject>, object: KubeObject): boolean {
    return this.#track(resource, object).contention.phase === 'backing-off'
  }

  /** Asked right before a write, with what was just read. */
  mustWait(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    track.isCorrection = isCorrection(track, wanted)
    track.found = found
    if (!track.isCorrection) return false
    track.writer = this.#writerOf(track) ?? track.writer
    return this.#mustWait(track)
  }

  /** The write that {@link mustWait} was asked about was made. Says whether it was a correction. */
  written(
    resource: Resource<KubeObject>,
    write: {
      readonly object: KubeObject | undefined
      /** Undefined for a deletion. */
      readonly wanted: KubeObject | undefined
      readonly stored: KubeObject | undefined
      readonly reasons: readonly string[]
    },
  ): Correction | undefined {
    const track = this.#track(resource, write.object)
    const isFight = track.contention.phase === 'backing-off'
    const correction = track.isCorrection ? { writer: this.#writerOf(track), isFight } : undefined
    track.right = { content: wantedContent(write.wanted), object: write.stored }
    track.isCorrection = false
    track.found = undefined
    this.#next(track, correction === undefined ? 'written' : 'corrected')
    if (correction !== undefined) this.#count(track, correction, write.reasons)
    return correction
  }

  #mustWait(track: Track): boolean {
    if (this.#wake === undefined) return false
    this.#next(track, 'undone')
    return this.#options.clock.monotonicMs() < correctionDueMs(track.contention, this.#limits)
  }

  #writerOf({ right, found }: Track): string | undefined {
    if (found === undefined) return undefined
    const before = right?.object
    const isSame = before?.metadata?.uid === found.metadata?.uid
    return writerBetween(isSame ? before : undefined, found)?.manager
  }

  #count(track: Track, { writer }: Correction, reasons: readonly string[]): void {
    const { clock, logger, events } = this.#options
    this.#metrics.overwritten(track.resource.kind, writer)
    if (track.resource.kind !== 'Endpoints' || writer === undefined || !isReconciler(writer)) return
    if (!reasons.includes('addresses') && !reasons.includes('subsets')) return
    if (!this.#other.overwrote(clock.monotonicMs())) return
    const note = otherReconcilerNote(writer)
    logger.warn({ writer }, note)
    events.record(eventOf('OtherReconcilerActive', { regarding: this.#regarding(track), note }))
  }

  #next(track: Track, input: ContentionInput): void {
    const { clock, logger, events } = this.#options
    const before = track.contention
    const nowMs = clock.monotonicMs()
    track.contention = nextContention(before, input, nowMs, this.#limits)
    if (track.contention === before) return
    const { writer } = track
    const { kind } = track.resource
    const object = `${track.metadata.namespace}/${track.metadata.name}`
    if (before.phase === 'calm' && track.contention.phase === 'backing-off') {
      const { corrections, sinceMs } = track.contention
      const withinMs = Math.round(nowMs - sinceMs)
      this.#metrics.backedOff(kind)
      logger.warn(
        { kind, object, writer, corrections, withinMs },
        'somebody else keeps undoing what is written; backing off',
      )
      const note = overwriteNote({ kind, object, writer, corrections, withinMs })
      events.record(eventOf('ForeignOverwrite', { regarding: this.#regarding(track), note }))
    }
    if (before.phase === 'backing-off' && track.contention.phase === 'calm') {
      const durationMs = Math.round(nowMs - before.sinceMs)
      logger.info(
        { kind, object, writer, corrections: before.corrections, durationMs },
        'nobody undoes what is written any more; it is put right at once again',
      )
      track.writer = undefined
    }
    if (before.phase !== track.contention.phase) this.#metrics.backsOff(kind, this.#isAnyBackingOff(kind))
    this.#schedule()
  }

  #schedule(): void {
    this.#cancel()
    const { clock } = this.#options
    const looks = [...this.#tracks.values()].map(({ contention }) => nextLookMs(contention, this.#limits))
    const nextMs = Math.min(...looks.filter((atMs) => atMs !== undefined))
    const wake = this.#wake
    if (wake === undefined || !Number.isFinite(nextMs)) return
    // Sums of milliseconds are rounded: what is not quite due yet must not be looked at again in the same instant.
    this.#cancel = clock.schedule(Math.max(nextMs - clock.monotonicMs(), 1), () => {
      // What has been right for long enough is, whether or not anybody looks at it now.
      for (const track of this.#tracks.values()) if (isRight(track.contention)) this.#next(track, 'right')
      wake()
    })
  }

  #isAnyBackingOff(kind: string): boolean {
    return [...this.#tracks.values()].some(
      (track) => track.resource.kind === kind && track.contention.phase === 'backing-off',
    )
  }

  /** As it was last known: an event about an object is found by its uid. */
  #regarding({ resource, metadata, right, found }: Track): ObjectReference {
    return referenceIn(resource, found ?? right?.object ?? { metadata })
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
      right: undefined,
      isCorrection: false,
      found: undefined,
      writer: undefined,
    }
    this.#tracks.set(key, track)
    return track
  }
}

function isRight(contention: Contention): boolean {
  return contention.phase === 'backing-off' && contention.rightSinceMs !== undefined
}

function isCorrection({ right }: Track, wanted: KubeObject | undefined): boolean {
  return right?.content === wantedContent(wanted)
}

/**
 * What a Service, Endpoints or an EndpointSlice says that is kept here, as text: equal for objects that say the same, whatever else
 * differs. Undefined stands for an object that is not to be there. Pure.
 */
function wantedContent(object: KubeObject | undefined): string {
  if (object === undefined) return 'absent'
  const { subsets } = object as Endpoints
  const { endpoints, addressType, ports } = object as EndpointSlice
  const { spec } = object as Service
  if (spec !== undefined) return JSON.stringify([spec.type, spec.ipFamilyPolicy, portTexts(spec.ports)])
  if (addressType !== undefined) {
    const addresses = (endpoints ?? []).flatMap((endpoint) => endpoint.addresses)
    return JSON.stringify([addressType, addresses.sort(), portTexts(ports)])
  }
  const listed = (subsets ?? []).map((subset) => [
    (subset.addresses ?? []).map(({ ip }) => ip).sort(),
    portTexts(subset.ports),
  ])
  return JSON.stringify(listed)
}
