import { percent } from './format.ts'
import { type Html, html } from './html.ts'

const second = 1_000
const minute = 60 * second
const steps = [1, 2, 5, 10, 15, 20, 30].map((n) => n * second).concat([1, 2, 5, 10, 20, 60].map((n) => n * minute))
const MOST_TICKS = 10
/** From here on, times on the axis are minutes and seconds. */
const LONG_MS = 3 * minute

/** Where an axis of so long has its ticks, in milliseconds: full units, ten at most. */
export function ticks(untilMs: number): readonly number[] {
  const fits = (stepMs: number): boolean => untilMs / stepMs <= MOST_TICKS
  const stepMs = steps.find(fits) ?? Math.ceil(untilMs / MOST_TICKS / (60 * minute)) * 60 * minute
  return Array.from({ length: Math.floor(untilMs / stepMs) + 1 }, (_, index) => index * stepMs)
}

/** What the numbers of an axis of so long are. */
export function axisUnit(untilMs: number): string {
  return untilMs > LONG_MS ? 'min:s' : 'seconds'
}

export function axis(untilMs: number): Html {
  const labels = ticks(untilMs).map((atMs, index) => {
    const edge = atMs === 0 ? 'first' : atMs > untilMs * 0.97 ? 'last' : ''
    const classes = `${edge}${index % 2 === 1 ? ' odd' : ''}`.trim()
    return html`<text x="${percent(atMs / untilMs)}" y="85%" class="${classes}">${tickLabel(atMs, untilMs)}</text>`
  })
  return html`<svg class="axis">${labels}</svg>`
}

function tickLabel(atMs: number, untilMs: number): string {
  if (untilMs <= LONG_MS) return String(atMs / second)
  return `${Math.floor(atMs / minute)}:${String(Math.floor((atMs % minute) / second)).padStart(2, '0')}`
}
