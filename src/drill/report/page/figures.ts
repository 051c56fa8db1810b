import type { Distribution, Figures, VariantReport } from '../report.ts'
import {
  type Cell,
  type Column,
  count,
  counted,
  type Group,
  type Html,
  html,
  type Part,
  percent,
  seconds,
  share,
  table,
} from './html.ts'

interface Row<Value> {
  readonly name: string
  readonly text: (value: Value) => string
  /** Whether the page emphasizes the value, because a healthy fleet would not have it. */
  readonly amiss?: (value: Value) => boolean
}

interface Section<Value> {
  readonly name: string
  readonly sentence: string
  readonly rows: readonly Row<Value>[]
}

const distribution: readonly Row<Distribution>[] = [
  { name: 'measured', text: (one) => count(one.count) },
  { name: 'not until the end', text: (one) => count(one.never), amiss: (one) => one.never > 0 },
  { name: 'p50', text: (one) => seconds(one.p50Ms) },
  { name: 'p99', text: (one) => seconds(one.p99Ms) },
  { name: 'max', text: (one) => seconds(one.maxMs) },
]

const number = (name: string): readonly Row<number>[] => [{ name, text: count, amiss: (value) => value > 0 }]

/** The type requires an entry for every figure, so that the page shows all figures. */
const sections: { readonly [Name in keyof Figures]: Section<Figures[Name]> } = {
  timeToDetect: {
    name: 'Time to detect',
    sentence: 'From the death of an address until it has no lease. Not measured if the drill cannot read the leases.',
    rows: distribution,
  },
  timeToRemove: {
    name: 'Time to remove',
    sentence:
      'From the death of an address, or the stop of its master, until the address is no longer in the EndpointSlice.',
    rows: distribution,
  },
  timeToAddAgain: {
    name: 'Time to add again',
    sentence: 'From the moment that a master is healthy, but not listed, until its address is in the EndpointSlice.',
    rows: distribution,
  },
  deadListedTooLong: {
    name: 'Dead listed too long',
    sentence:
      'How often a master’s address was listed for longer than a lease and the margin while no client was served there.',
    rows: number('times'),
  },
  flaps: {
    name: 'Flaps',
    sentence: 'How often an address left while a master of it had been healthy for six seconds or more.',
    rows: number('times'),
  },
  deadListedAtEnd: {
    name: 'Dead at the end',
    sentence:
      'Addresses that were still listed when the drill ended, although they were dead or belonged to no master.',
    rows: number('addresses'),
  },
  emptyMs: {
    name: 'Nobody listed',
    sentence: 'How long the EndpointSlice was empty or missing while a master was healthy.',
    rows: [{ name: 'empty for', text: seconds, amiss: (ms) => ms > 0 }],
  },
  deadListedMs: {
    name: 'Dead and listed',
    sentence: 'How long the EndpointSlice listed at least one address where no client was served.',
    rows: [{ name: 'dead listed for', text: seconds }],
  },
  fewestListed: {
    name: 'Fewest listed',
    sentence: 'The fewest addresses that the EndpointSlice listed at once, not counting damage by others.',
    rows: [{ name: 'addresses', text: count, amiss: (addresses) => addresses === 0 }],
  },
  connections: {
    name: 'Connections of clients',
    sentence: 'What happened to clients that pick an address from the EndpointSlice, as kube-proxy does.',
    rows: [
      { name: 'in all', text: ({ total }) => count(total) },
      { name: 'served', text: ({ served }) => count(served) },
      { name: 'refused', text: ({ refused }) => count(refused) },
      { name: 'black-holed', text: ({ blackHoled }) => count(blackHoled) },
      { name: 'no address known', text: ({ nobody }) => count(nobody), amiss: ({ nobody }) => nobody > 0 },
      { name: 'share not served', text: ({ deadShare }) => share(deadShare) },
      {
        name: 'not served after a stop',
        text: ({ notServedAfterStop }) => count(notServedAfterStop),
        amiss: ({ notServedAfterStop }) => notServedAfterStop > 0,
      },
    ],
  },
  writes: {
    name: 'Writes',
    sentence: 'Writes of the masters to the API server. Leases in the API count, Events do not.',
    rows: [
      { name: 'in all', text: ({ total }) => count(total) },
      { name: 'most of one master in 10 s', text: ({ mostInTenSeconds }) => count(mostInTenSeconds) },
    ],
  },
}

export function figuresTable(variants: readonly VariantReport[]): Html {
  const names = Object.keys(sections) as (keyof Figures)[]
  return table({
    label: 'All figures',
    caption: html`All figures <span class="aside">over all runs of each variant; values that a healthy fleet would not have are bold</span>`,
    columns: columnsOf('figure', variants),
    groups: names.map((name) => ({
      name: html`${sections[name].name} <span class="aside">${sections[name].sentence}</span>`,
      rows: rowsOf(name, variants),
    })),
  })
}

function rowsOf<Name extends keyof Figures>(name: Name, variants: readonly VariantReport[]): Group['rows'] {
  const { rows }: Section<Figures[Name]> = sections[name]
  return rows.map((row) => [
    row.name,
    ...variants.map(({ figures }) => ({
      text: row.text(figures[name]),
      broken: row.amiss?.(figures[name]) ?? false,
    })),
  ])
}

/** The most important figures, with a column for each variant. */
export function glance(variants: readonly VariantReport[]): Html {
  const row = (name: string, cell: (variant: VariantReport) => Part | Cell) => [name, ...variants.map(cell)]
  const many = (number: number, broken: boolean): Cell => ({ text: count(number), broken })
  return table({
    label: 'At a glance',
    caption: 'At a glance',
    columns: columnsOf('reconciler', variants),
    groups: [
      {
        rows: [
          row('verdict', ({ held }) =>
            held ? html`<span class="held">held</span>` : { text: 'did not hold', broken: true },
          ),
          row('dead one removed: median', ({ figures }) => seconds(figures.timeToRemove.p50Ms)),
          row('dead one removed: at most', ({ figures }) => seconds(figures.timeToRemove.maxMs)),
          row('dead one listed for, in all', ({ figures }) => seconds(figures.deadListedMs)),
          row('dead listed too long', ({ figures: { deadListedTooLong } }) =>
            many(deadListedTooLong, deadListedTooLong > 0),
          ),
          row('connections not served', ({ figures }) => share(figures.connections.deadShare)),
          row('flaps', ({ figures: { flaps } }) => many(flaps, flaps > 0)),
          row('fewest listed', ({ figures: { fewestListed } }) => many(fewestListed, fewestListed === 0)),
        ],
      },
    ],
  })
}

function columnsOf(first: string, variants: readonly VariantReport[]): readonly Column[] {
  return [{ name: first }, ...variants.map(({ name }) => ({ name, numbers: true }))]
}

export function samples(variants: readonly VariantReport[]): Html {
  const keys = ['timeToDetect', 'timeToRemove', 'timeToAddAgain'] as const
  return html`<div class="stack">${keys.map((key) => {
    const { name } = sections[key]
    const distributions = variants.map(({ name: variant, figures }) => ({ variant, of: figures[key] }))
    return html`<figure class="card"><figcaption><h3>${name}</h3></figcaption>
${strip(name, distributions)}
<details><summary>Every ${name.toLowerCase()}</summary>
${distributions.map(({ variant, of }) => samplesTable(name, variant, of))}</details>
</figure>`
  })}</div>`
}

type Named = { readonly variant: string; readonly of: Distribution }

function strip(name: string, distributions: readonly Named[]): Html {
  const longestMs = Math.max(0, ...distributions.map(({ of }) => of.maxMs ?? 0))
  const untilMs = Math.max(1_000, longestMs * 1.05)
  const at = (ms: number): string => percent(ms / untilMs)
  const rows = distributions.map(({ variant, of }) => {
    const places = new Set(
      of.samples.flatMap(({ tookMs }) =>
        tookMs === undefined ? [] : [percent(Math.round((tookMs / untilMs) * 300) / 300)],
      ),
    )
    const strokes = [...places].map((x) => html`<line class="t" x1="${x}" x2="${x}" y1="20%" y2="80%"/>`)
    const median = of.p50Ms === undefined ? undefined : html`<use href="#fault" class="m" x="${at(of.p50Ms)}" y="-3"/>`
    return html`<div class="row"><div class="who"><b>${variant}</b> <span>${described(of)}</span></div><svg class="samples"><line class="base" x2="100%" y1="50%" y2="50%"/>${strokes}${median}</svg></div>
`
  })
  const description = `${name} by reconciler. ${distributions.map(({ variant, of }) => `${variant}: ${described(of)}.`).join(' ')}`
  const lines = ticks(untilMs).map((ms) => html`<line x1="${at(ms)}" x2="${at(ms)}" y2="100%"/>`)
  return html`<div class="chart"><div class="plot strip" role="img" aria-label="${description}">
<svg class="guides tick">${lines}</svg>
${rows}
<div class="row"><div class="what">${axisUnit(untilMs)}</div>${axis(untilMs)}</div>
</div></div><p class="aside small">A stroke is a sample; the triangle points at the median.</p>`
}

function described({ count, never, p50Ms, maxMs }: Distribution): string {
  const measured = count === 0 ? 'nothing measured' : `${seconds(p50Ms)} p50, ${seconds(maxMs)} max, of\u00A0${count}`
  return never === 0 ? measured : `${measured}; ${never} never`
}

function samplesTable(name: string, variant: string, { samples: all, count: measured, never }: Distribution): Html {
  const total = measured + never
  if (all.length === 0) return html`<p class="small">${variant}: nothing was measured.</p>`
  return table({
    label: `${name}, every sample of ${variant}`,
    caption: html`${variant} <span class="aside">${counted(all.length, 'sample')}${all.length < total ? html` of ${count(total)}` : undefined}</span>`,
    columns: [{ name: 'master' }, { name: 'cause' }, { name: 'at', numbers: true }, { name: 'took', numbers: true }],
    groups: [
      {
        rows: all.map(({ master, cause, atMs, tookMs }) => [
          master,
          cause,
          seconds(atMs),
          tookMs === undefined ? { text: 'never', broken: true } : seconds(tookMs),
        ]),
      },
    ],
    tall: true,
  })
}

const SECOND = 1_000
const minute = 60 * SECOND
const steps = [1, 2, 5, 10, 15, 20, 30].map((n) => n * SECOND).concat([1, 2, 5, 10, 20, 60].map((n) => n * minute))
const MOST_TICKS = 10
/** On an axis longer than this, in milliseconds, times are in minutes and seconds. */
const LONG_MS = 3 * minute

/** The ticks of an axis, in milliseconds: 0, and at most ten multiples of a round step. */
export function ticks(untilMs: number): readonly number[] {
  const fits = (stepMs: number): boolean => untilMs / stepMs <= MOST_TICKS
  const stepMs = steps.find(fits) ?? Math.ceil(untilMs / MOST_TICKS / (60 * minute)) * 60 * minute
  return Array.from({ length: Math.floor(untilMs / stepMs) + 1 }, (_, index) => index * stepMs)
}

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
  if (untilMs <= LONG_MS) return String(atMs / SECOND)
  return `${Math.floor(atMs / minute)}:${String(Math.floor((atMs % minute) / SECOND)).padStart(2, '0')}`
}
