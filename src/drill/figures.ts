import type { DrillEvent } from './event.ts'
import { Causes } from './figures/causes.ts'
import { distribution } from './figures/distribution.ts'
import { ListingMeter } from './figures/listing-figures.ts'
import { TrafficMeter } from './figures/traffic.ts'
import { addition, detection, removal, Waits } from './figures/waits.ts'
import { FleetView } from './fleet-view.ts'
import type { Figures, Sample } from './report.ts'

interface Run {
  readonly events: readonly DrillEvent[]
  readonly untilMs: number
}

/**
 * The figures of one or more runs, worked out from their histories from time 0 until before `untilMs`; those of several runs are added
 * up, the fewest and the most are taken over all. `deadUntilMs`: how long a dead master may be listed, with its lease and the margin. What happens at one
 * moment is judged when all of it has happened. Pure.
 */
export function computeFigures(runs: readonly Run[], { deadUntilMs }: { readonly deadUntilMs: number }): Figures {
  const traffic = new TrafficMeter()
  const each = runs.map((run) => measure(run, traffic, deadUntilMs))
  const total = (figure: 'flaps' | 'keptDead' | 'deadListedAtEnd' | 'emptyMs' | 'deadListedMs'): number =>
    each.reduce((sum, { listing }) => sum + listing[figure], 0)
  return {
    timeToDetect: distribution(each.flatMap(({ detections }) => detections)),
    timeToRemove: distribution(each.flatMap(({ removals }) => removals)),
    timeToAddAgain: distribution(each.flatMap(({ additions }) => additions)),
    flaps: total('flaps'),
    keptDead: total('keptDead'),
    deadListedAtEnd: total('deadListedAtEnd'),
    emptyMs: total('emptyMs'),
    deadListedMs: total('deadListedMs'),
    fewestListed: each.length === 0 ? 0 : Math.min(...each.map(({ listing }) => listing.fewestListed)),
    ...traffic.figures,
  }
}

function measure(
  { events, untilMs }: Run,
  traffic: TrafficMeter,
  deadUntilMs: number,
): {
  readonly listing: ReturnType<ListingMeter['figures']>
  readonly detections: readonly Sample[]
  readonly removals: readonly Sample[]
  readonly additions: readonly Sample[]
} {
  const view = new FleetView()
  const causes = new Causes()
  const listing = new ListingMeter(deadUntilMs)
  const detections = new Waits(detection)
  const removals = new Waits(removal)
  const additions = new Waits(addition)
  let sinceMs = 0
  /** Things were so until then. */
  const lasted = (endMs: number): void => {
    if (endMs <= sinceMs) return
    for (const waits of [detections, removals, additions]) waits.note(view, causes, sinceMs)
    listing.last(view, endMs - sinceMs)
    sinceMs = endMs
  }
  for (const event of events) {
    if (event.atMs >= untilMs) break
    if (event.type === 'connection' || event.type === 'served' || event.type === 'write') {
      // Nothing is otherwise for these, and there are many.
      if (event.atMs >= 0) traffic.take(event, view)
      continue
    }
    lasted(event.atMs)
    view.take(event)
    causes.take(event)
    listing.take(event)
  }
  lasted(untilMs)
  traffic.endRun()
  return {
    listing: listing.figures(view),
    detections: detections.samples(view),
    removals: removals.samples(view),
    additions: additions.samples(view),
  }
}
