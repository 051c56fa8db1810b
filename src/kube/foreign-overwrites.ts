import { formatDuration } from '../documents/duration.ts'
import type { Cancel, Clock } from '../runtime/clock.ts'
import {
  type Contention,
  type ContentionInput,
  type ContentionLimits,
  calm,
  contentionLimits,
  correctionDueMs,
  nextContention,
  nextLookMs,
} from '../runtime/contention.ts'
import { ContentionReports, type ContentionReportsOptions, type Contested } from './contention-reports.ts'
import { referenceIn } from './event-object.ts'
import { eventOf } from './event-reasons.ts'
import type { KubeObject } from './json.ts'
import { writerBetween } from './managed-fields.ts'
import { isNewer } from './resource-version.ts'
import type { Resource } from './resources.ts'

export interface ForeignOverwritesOptions extends ContentionReportsOptions {
  readonly clock: Clock
  /** The longest wait between two corrections, in milliseconds: never slower than upstream, which looks once an interval. */
  readonly intervalMs: number
  /** What an object says that is kept, as text: equal for objects that say the same, whatever else differs. */
  readonly contentOf: (object: KubeObject) => string
  /** Who the writer is, and what to do about it, for an event. */
  readonly describeWriter: (
    kind: string,
    writer: string | undefined,
  ) => { readonly who: string; readonly remedy: string }
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
 * A write corrects a foreign overwrite when what it makes was right before, and somebody else's write was not. What is wanted otherwise than
 * before, such as another list of masters, was not, so that it is written at once, whatever is fought over. While nobody is
 * {@link attach}ed nothing waits.
 */
export class ForeignOverwrites {
  readonly #options: ForeignOverwritesOptions
  readonly #limits: ContentionLimits
  readonly #reports: ContentionReports
  readonly #tracks = new Map<string, Track>()
  #wake: (() => void) | undefined
  #cancel: Cancel = () => {}

  constructor(options: ForeignOverwritesOptions) {
    this.#options = options
    this.#limits = contentionLimits(options.intervalMs)
    this.#reports = new ContentionReports(options)
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
        if (track.contention.phase === 'backing-off') this.#reports.ended(track.resource.kind)
        track.contention = calm
      }
    }
  }

  /** The object was found as it should be. One that is older than what is known says nothing. */
  right(resource: Resource<KubeObject>, object: KubeObject): void {
    const track = this.#track(resource, object)
    const known = track.right?.object
    if (known !== object) {
      if (isNewer(known, object)) return
      track.right = { content: this.#contentOf(object), object }
    }
    this.#next(track, 'right')
  }

  /** The object was to be deleted, and another was faster: that it is not there is right. */
  gone(resource: Resource<KubeObject>, object: KubeObject | undefined): void {
    const track = this.#track(resource, object)
    track.right = { content: this.#contentOf(undefined), object: undefined }
    track.isCorrection = false
    track.found = undefined
  }

  /** Whether what a cache shows wrong must be left so for now. `wanted` undefined: the object `found` is not to be there. */
  isWaiting(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    if (track.contention.phase === 'calm' || !this.#isCorrection(track, wanted)) return false
    return this.#mustWait(track)
  }

  /** Asked right before a write, with what was just read. */
  mustWait(resource: Resource<KubeObject>, wanted: KubeObject | undefined, found: KubeObject | undefined): boolean {
    const track = this.#track(resource, wanted ?? found)
    track.isCorrection = this.#isCorrection(track, wanted)
    track.found = found
    if (!track.isCorrection) return false
    track.writer = this.#writerOf(track) ?? track.writer
    return this.#mustWait(track)
  }

  /**
   * The write that {@link mustWait} was asked about was made. Says whether it was a correction.
   *
   * @param object - as it was wanted, or as it was before it was deleted.
   * @param stored - undefined for a deletion.
   */
  written(
    resource: Resource<KubeObject>,
    object: KubeObject | undefined,
    stored: KubeObject | undefined,
  ): Correction | undefined {
    const track = this.#track(resource, object)
    const isFight = track.contention.phase === 'backing-off'
    const correction = track.isCorrection ? { writer: this.#writerOf(track), isFight } : undefined
    track.right = { content: this.#contentOf(stored && object), object: stored }
    track.isCorrection = false
    track.found = undefined
    this.#next(track, correction === undefined ? 'written' : 'corrected')
    if (correction !== undefined) this.#reports.corrected(resource.kind, correction.writer)
    return correction
  }

  #isCorrection({ right }: Track, wanted: KubeObject | undefined): boolean {
    return right?.content === this.#contentOf(wanted)
  }

  /** `object` undefined: it is not to be there. */
  #contentOf(object: KubeObject | undefined): string {
    return object === undefined ? 'absent' : this.#options.contentOf(object)
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

  #next(track: Track, input: ContentionInput): void {
    const before = track.contention
    const nowMs = this.#options.clock.monotonicMs()
    track.contention = nextContention(before, input, nowMs, this.#limits)
    if (track.contention === before) return
    this.#reports.changed(this.#contested(track), before, track.contention, nowMs)
    if (before.phase === 'backing-off' && track.contention.phase === 'calm') track.writer = undefined
    this.#schedule()
  }

  /** An event about an object is found by its uid: so it is told of as it was last known. */
  #contested({ resource, metadata, right, found, writer }: Track): Contested {
    const { kind } = resource
    const object = `${metadata.namespace}/${metadata.name}`
    const regarding = referenceIn(resource, found ?? right?.object ?? { metadata })
    return {
      kind,
      fields: { kind, object, writer },
      backingOff: 'somebody else keeps undoing what is written; backing off',
      calmAgain: 'nobody undoes what is written any more; it is put right at once again',
      event: ({ corrections, withinMs }) => {
        const { who, remedy } = this.#options.describeWriter(kind, writer)
        const what = `${kind} ${object} was put right ${corrections} times in ${formatDuration(withinMs)} and undone each time by ${who}`
        const note = `${what}; from now on it is put right at growing intervals. ${remedy}.`
        return eventOf('ForeignOverwrite', { regarding, note })
      },
    }
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
