import { total } from './bins.ts'
import { count, seconds } from './format.ts'
import type { RunHistory } from './history.ts'
import { type Html, html } from './html.ts'
import { lengthOf, type Span } from './spans.ts'
import { type Group, table } from './table.ts'

/** What a chart shows, as tables: for whoever does not see it, or wants the exact times. At most so many rows of a kind. */
export function facts(history: RunHistory, { name, most }: { readonly name: string; readonly most: number }): Html {
  const { steps, seen, writes, errors, served } = history
  const faults = steps.length > VISIBLE_STEPS ? stepList(history, Math.floor(most / 2)) : undefined
  const counts = writes.counts
    .map((one, index) => ({
      fromMs: index * writes.widthMs,
      written: one.write,
      served: served.counts[index]?.served ?? 0,
      errors: errors.counts[index],
    }))
    .filter((one) => one.written + total(one.errors ?? {}) > 0)
  return html`<details><summary>Exact times of ${name}</summary>
${faults}
${lives(history, name, most)}
${
  counts.length === 0
    ? html`<p class="small">No ${seen.writes ? '' : 'write was seen one by one, and no '}client error was counted.</p>`
    : table({
        label: `Writes and client errors of ${name}`,
        caption: html`Writes and client errors <span class="aside">in each ${seconds(writes.widthMs)}; parts with neither are left out</span>`,
        columns: [
          { name: 'from' },
          ...['writes', 'served', 'refused', 'black-holed', 'no address known'].map((text) => ({
            name: text,
            numbers: true,
          })),
        ],
        groups: [
          {
            rows: counts.map(({ fromMs, written, served: good, errors: met }) => [
              seconds(fromMs),
              seen.writes ? count(written) : '–',
              ...[good, met?.refused, met?.['black-holed'], met?.nobody].map((number = 0) => count(number)),
            ]),
          },
        ],
        tall: true,
      })
}</details>
`
}

/** Up to so many steps stand below the chart itself. */
export const VISIBLE_STEPS = 12

/** The faults, by their numbers. */
export function stepList({ steps }: RunHistory, most: number): Html {
  const shown = steps.slice(0, most)
  return html`<ol class="steps" aria-label="Faults">${shown.map(
    ({ atMs, text }) => html`<li>${seconds(atMs)}: ${text}\n`,
  )}</ol>${omitted(steps.length - shown.length)}`
}

function lives({ masters, strangers }: RunHistory, name: string, most: number): Html {
  let left = most
  let dropped = 0
  const groupOf = (
    title: string,
    tracks: readonly { readonly what: string; readonly spans: readonly Span[] }[],
  ): Group => {
    const rows = tracks
      .flatMap(({ what, spans }) => spans.map((span) => ({ what, ...span })))
      .map((span) => [
        span.what,
        words[span.state] ?? span.state,
        seconds(span.fromMs),
        seconds(span.toMs),
        seconds(lengthOf(span)),
      ])
    const shown = rows.slice(0, left)
    left -= shown.length
    dropped += rows.length - shown.length
    return { name: title, rows: shown }
  }
  const groups = masters.map((one) =>
    groupOf(`${one.name} (${one.addresses.join(', then ')})`, [
      { what: 'sidecar', spans: one.sidecar },
      { what: 'server', spans: one.server },
      { what: 'clients', spans: one.clients },
      { what: 'Endpoints', spans: one.endpoints },
      { what: 'EndpointSlice', spans: one.slice },
      { what: 'lease', spans: one.lease },
    ]),
  )
  const others = strangers.map(({ address, slice }) =>
    groupOf(`${address} (no master)`, [{ what: 'EndpointSlice', spans: slice }]),
  )
  return html`${table({
    label: `States over time of ${name}`,
    caption: 'States over time',
    columns: [
      { name: 'what' },
      { name: 'state' },
      ...['from', 'to', 'for'].map((text) => ({ name: text, numbers: true })),
    ],
    groups: [...groups, ...others],
    tall: true,
  })}${omitted(dropped)}`
}

const words: Readonly<Record<string, string>> = { dead: 'listed, no client served' }

function omitted(number: number): Html | undefined {
  return number === 0 ? undefined : html`<p class="aside small">${count(number)} more are in report.json.</p>`
}
