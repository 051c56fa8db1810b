import { formatDuration } from '../documents/duration.ts'
import type { DrillEvent } from '../drill/event.ts'
import { Transcript } from '../drill/report/transcript.ts'
import type { DrillScreen } from './drill-screen.ts'

/** Between two looks at how far it is, in milliseconds. */
const LOOK_MS = 200

export interface TimelineOptions {
  readonly screen: DrillScreen
  /** Of one run. */
  readonly durationMs: number
  readonly variants: readonly string[]
  readonly runs: number
  readonly seed: number
  readonly live: boolean
  /** Whether the events are told; the progress is in any case. */
  readonly told: boolean
}

/** Which run of which variant an event is of. */
interface Run {
  readonly variant: string
  readonly index: number
}

/** Tells a drill as it happens. In the simulator, where runs take no time, the first run of each variant and what does not hold in others. */
export class DrillTimeline {
  readonly #options: TimelineOptions
  readonly #timer: NodeJS.Timeout
  #run: Run | undefined
  #transcript = new Transcript()
  #atMs: number | undefined
  #heardMs = 0

  constructor(options: TimelineOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#showProgress(), LOOK_MS)
    this.#showProgress()
  }

  take(event: DrillEvent, run: Run): void {
    if (this.#run?.variant !== run.variant || this.#run.index !== run.index) this.#begin(run)
    this.#atMs = event.atMs
    this.#heardMs = performance.now()
    if (!this.#options.told) return
    if (this.#tellsAll(run)) this.#tell(this.#transcript.take(event))
    // The first line says how that run began.
    else if (event.type === 'violation') {
      this.#tell(
        new Transcript()
          .take(event)
          .slice(-1)
          .map((line) => `${this.#titleOf(run)}: ${line}`),
      )
    }
  }

  /** The last run is over. */
  end(): void {
    clearInterval(this.#timer)
    this.#endRun()
    this.#options.screen.end()
  }

  #begin(run: Run): void {
    this.#endRun()
    this.#run = run
    this.#transcript = new Transcript()
    this.#atMs = undefined
    const { variants, runs, told } = this.#options
    if (told && this.#tellsAll(run) && variants.length * runs > 1) this.#tell(['', this.#titleOf(run)])
  }

  #endRun(): void {
    if (this.#options.told && this.#run !== undefined && this.#tellsAll(this.#run)) this.#tell(this.#transcript.end())
  }

  #tellsAll({ index }: Run): boolean {
    return index === 0 || this.#options.live
  }

  #titleOf({ variant, index }: Run): string {
    const { runs, seed } = this.#options
    return runs === 1 ? variant : `${variant}, run ${index + 1} of ${runs}, seed ${seed + index}`
  }

  #tell(lines: readonly string[]): void {
    for (const line of lines) this.#options.screen.line(line)
  }

  #showProgress(): void {
    const { screen, variants, runs, durationMs, live } = this.#options
    const { variant, index } = this.#run ?? { variant: variants[0] ?? '', index: 0 }
    const number = Math.max(variants.indexOf(variant), 0) * runs + index + 1
    const which = variants.length * runs === 1 ? '' : `run ${number} of ${variants.length * runs} · `
    screen.progress(`${which}${variant} · ${this.#howFar(durationMs, live)}`)
  }

  #howFar(durationMs: number, live: boolean): string {
    if (this.#atMs === undefined || this.#atMs < 0) return 'coming up'
    // Where it takes time, time passes between two events as well.
    const atMs = this.#atMs + (live ? performance.now() - this.#heardMs : 0)
    const shownMs = Math.floor(Math.min(atMs, durationMs) / 1000) * 1000
    return `${formatDuration(shownMs)} of ${formatDuration(durationMs)}`
  }
}
