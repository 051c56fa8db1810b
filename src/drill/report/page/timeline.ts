import type { DrillReport, RunReport, VariantReport } from '../report.ts'
import { axis, axisUnit, ticks } from './figures.ts'
import {
  facts,
  lengthOf,
  type MasterHistory,
  mostPerSecond,
  type Occurrence,
  type RunHistory,
  readHistory,
  type Span,
  stepList,
  VISIBLE_STEPS,
} from './history.ts'
import { counted, type Html, html, markup, percent, seconds } from './html.ts'

/**
 * The most spans in all charts of a page together, and the most in all tables together. This limit keeps the file
 * small.
 */
const MOST_SPANS = 1_200
/** Roughly the most marks of steps in all charts of a page together. */
const MOST_MARKS = 360

/** The timelines of runs, with the variants side by side and the same time axis for all. */
export function timelines({ variants, scenario }: DrillReport): Html {
  const recorded = variants.map((variant) => ({
    variant,
    runs: chosen(variant).map((run) => ({ run, history: readHistory(run.events ?? [], scenario.durationMs) })),
  }))
  const histories = recorded.flatMap(({ runs }) => runs.map(({ history }) => history))
  const untilMs = Math.max(1, ...histories.map((history) => history.untilMs))
  const charts = Math.max(1, histories.length)
  const limits = { untilMs, most: Math.floor(MOST_SPANS / charts), mostMarks: Math.floor(MOST_MARKS / charts) }
  const rows = {
    leases: histories.some(({ seen }) => seen.leases),
    violations: histories.some(({ violations }) => violations.length > 0),
  }
  return html`<section aria-labelledby="timelines"><h2 id="timelines">What happened</h2>
<div class="card">${legend(rows)}</div>
<div class="columns runs">${recorded.map(
    ({ variant, runs }) => html`<div class="card"><h3>${variant.name} ${
      variant.held ? html`<span class="held">held</span>` : html`<span class="broken">did not hold</span>`
    }</h3>
${runs.map(({ run, history }) => oneRun(variant.name, run, history, { ...limits, rows }))}
${unshown(variant.runs.length - runs.length)}</div>
`,
  )}</div></section>`
}

function oneRun(name: string, { seed }: RunReport, history: RunHistory, limits: Limits): Html {
  const title = `${name}, seed ${seed}`
  const { steps } = history
  return html`<figure><h4>Seed ${seed}</h4>
${timeline(history, { ...limits, description: `Timeline of ${title}. ${described(history)} The same is listed below as tables.` })}
<figcaption class="aside small">${described(history)}</figcaption>
${steps.length > 0 && steps.length <= VISIBLE_STEPS ? stepList(history, limits.most) : undefined}
${facts(history, { name: title, most: limits.most })}</figure>
`
}

function described({ masters, steps, violations, untilMs, seen }: RunHistory): string {
  const dead = masters.flatMap(({ name, tracks }) => {
    const ms = tracks.slice.filter(({ state }) => state === 'dead').reduce((sum, span) => sum + lengthOf(span), 0)
    return ms === 0 ? [] : [`${name} for ${seconds(ms)}`]
  })
  const sentences = [
    `${counted(masters.length, 'master')}, ${counted(steps.length, 'step')}, ${seconds(untilMs)}.`,
    dead.length === 0
      ? 'Clients were served at every master that was listed.'
      : `Listed although no client was served: ${dead.join(', ')}.`,
  ]
  if (violations.length > 0) sentences.push(`${counted(violations.length, 'violation')}.`)
  if (!seen.leases) sentences.push('No leases were observed.')
  return sentences.join(' ')
}

/** The runs that are drawn: the first run, and the first run that did not hold. */
function chosen({ runs }: VariantReport): readonly RunReport[] {
  const recorded = runs.filter(({ events }) => events !== undefined)
  const broken = recorded.find(({ violations }) => violations.length > 0)
  return [...new Set([...recorded.slice(0, 1), ...(broken === undefined ? [] : [broken])])]
}

function unshown(number: number): Html | undefined {
  if (number === 0) return undefined
  const rest =
    number === 1 ? 'is not drawn; its seed and violations are' : 'are not drawn; their seeds and violations are'
  return html`<p class="aside small">${counted(number, 'more run')} ${rest} <a href="#runs">below</a>.</p>`
}

/** The least width of a span, as a share of the time, so that every span is visible. */
const NARROWEST = 0.0015
/** With more steps than this, their lines would hide the lanes, so all these lines are left out. */
const MOST_GUIDES = 24
/** The least distance between two numbered marks, as a share of the time. A nearer mark gets no number. */
const NEAREST_NUMBERS = 0.04

/** The class that fills spans of each state. Spans of other states are not drawn, so the base line stays visible. */
const fills: Readonly<Record<string, string>> = {
  running: 's',
  ready: 's',
  stopping: 'u',
  unready: 'u',
  frozen: 'q',
  silent: 'q',
  served: 'c',
  'black-holed': 'q',
  listed: 'l',
  dead: 'd',
  held: 'h',
}

/** The options that charts side by side share, so that their lanes are aligned. */
interface Limits {
  readonly untilMs: number
  /** The most spans of each chart. */
  readonly most: number
  /** If a chart has more steps than this, some steps share a mark. */
  readonly mostMarks: number
  readonly rows: { readonly leases: boolean; readonly violations: boolean }
}

/** One run as lanes along a time axis. For a screen reader the chart is one image with the text `description`. */
function timeline(history: RunHistory, options: Limits & { readonly description: string }): Html {
  const { untilMs, most, mostMarks, description, rows: shown } = options
  const stepMarks = marksOf(history.steps, untilMs, mostMarks)
  const stepTimes = history.steps.map(({ atMs }) => atMs)
  const shortestMs = shortestDrawn(history, most)
  const drawn = (spans: readonly Span[]): readonly Span[] => spans.filter((span) => lengthOf(span) >= shortestMs)
  const named = spansOf(history).length <= most / 2
  const band = (spans: readonly Span[], from = 0.2, height = 0.6): Band => ({ spans: drawn(spans), from, height })
  const lane = ({ name, addresses, tracks }: MasterHistory): Html => {
    const rows: LaneRow[] = [
      { name: 'sidecar', bands: [band(tracks.sidecar)] },
      { name: 'server', bands: [band(tracks.server)] },
      { name: 'clients', bands: [band(tracks.clients)] },
      { name: 'listed', bands: [band(tracks.endpoints, 0.08, 0.22), band(tracks.slice, 0.4, 0.5)] },
      ...(shown.leases ? [{ name: 'lease', bands: [band(tracks.lease)] }] : []),
    ]
    const own = stepMarks.filter(({ masters }) => masters.has(name))
    const marks = own.map(({ x }) => html`<use href="#fault" x="${x}"/>`)
    return row({ name, addresses: addresses.join(' → '), rows, marks, untilMs, named })
  }
  return html`<div class="chart"><div class="plot" role="img" aria-label="${description}">
${guides(ticks(untilMs), untilMs, 'tick')}
${marksRow(stepMarks, history, { untilMs, withViolations: shown.violations })}
${history.masters.map(lane)}
${history.unownedAddresses.map(({ address, slice }) =>
  row({
    name: address,
    addresses: 'no master',
    rows: [{ name: 'listed', bands: [band(slice, 0.4, 0.5)] }],
    marks: [],
    untilMs,
    named,
  }),
)}
${history.seen.writes ? rates(['writes', 'per second'], history, untilMs, { write: 'l' }) : undefined}
${rates(['client', 'errors/s'], history, untilMs, { refused: 'r', 'black-holed': 'b', nobody: 'o' })}
<div class="row"><div class="what">${axisUnit(untilMs)}</div>${axis(untilMs)}</div>
${history.steps.length <= MOST_GUIDES ? guides(stepTimes, untilMs, 'fault') : undefined}
</div></div>
${shortestMs > 0 ? html`<p class="aside small">What lasted less than ${seconds(shortestMs)} is not drawn here, because there is so much of it.</p>` : undefined}`
}

/** Spans in a row of a lane, with their vertical position and their height as shares of the row. */
interface Band {
  readonly spans: readonly Span[]
  readonly from: number
  readonly height: number
}

interface LaneRow {
  readonly name: string
  readonly bands: readonly Band[]
}

function row(lane: {
  readonly name: string
  readonly addresses: string
  readonly rows: readonly LaneRow[]
  readonly marks: readonly Html[]
  readonly untilMs: number
  /** Whether each span has a title. */
  readonly named: boolean
}): Html {
  const { name, addresses, rows, marks } = lane
  const share = 1 / rows.length
  const lines = rows.map((_, index) => {
    const y = percent(share * (index + 0.5))
    return html`<line class="base" x2="100%" y1="${y}" y2="${y}"/>`
  })
  const bars = rows.flatMap(({ bands }, index) =>
    bands.flatMap(({ spans, from, height }) =>
      spans.map((span) => bar(span, { ...lane, y: share * (index + from), height: share * height })),
    ),
  )
  return html`<div class="row"><div class="who"><b>${name}</b> <span class="address">${addresses}</span></div>
<div class="what">${rows.map((one) => html`<span>${one.name}</span>`)}</div>
<svg style="height:${(rows.length * 0.8).toFixed(1)}rem">${lines}${bars}<g class="m" transform="translate(0 -4)">${marks}</g></svg></div>
`
}

function bar(
  { fromMs, toMs, state }: Span,
  place: { readonly untilMs: number; readonly y: number; readonly height: number; readonly named: boolean },
): Html | undefined {
  const fill = fills[state]
  if (fill === undefined) return undefined
  const { untilMs, y, height, named } = place
  const width = Math.max((toMs - fromMs) / untilMs, NARROWEST)
  const title = named ? html`<title>${state}, ${seconds(fromMs)} to ${seconds(toMs)}</title>` : undefined
  return html`<rect class="${fill}" x="${percent(fromMs / untilMs)}" width="${percent(width)}" y="${percent(y)}" height="${percent(height)}">${title}</rect>`
}

function guides(timesMs: readonly number[], untilMs: number, kind: 'tick' | 'fault'): Html {
  const places = new Set(timesMs.map((atMs) => percent(atMs / untilMs)))
  return html`<svg class="guides ${kind}">${[...places].map((x) => html`<line x1="${x}" x2="${x}" y2="100%"/>`)}</svg>`
}

function marksRow(
  marks: readonly Mark[],
  { violations }: RunHistory,
  { untilMs, withViolations }: { readonly untilMs: number; readonly withViolations: boolean },
): Html {
  let numberedMs = Number.NEGATIVE_INFINITY
  const steps = marks.map(({ x, atMs, number, texts, omitted }) => {
    const numbered = (atMs - numberedMs) / untilMs >= NEAREST_NUMBERS
    if (numbered) numberedMs = atMs
    const lines = texts.map((text, index) => `${number + index}: ${text}`)
    if (omitted > 0) lines.push(`and ${omitted} more`)
    return html`<svg x="${x}" overflow="visible"><title>${lines.join('\n')}</title>${
      numbered ? html`<text y="40%">${number}</text>` : undefined
    }<use href="#fault" class="m" y="15"/></svg>`
  })
  const broken = [...new Set(violations.map(({ atMs }) => percent(atMs / untilMs)))]
  return html`<div class="row"><div class="what"><span>&#8203;</span><span>steps</span></div><svg class="marks">${steps}</svg></div>
${
  !withViolations
    ? undefined
    : html`<div class="row"><div class="what">violations</div><svg style="height:.8rem">${broken.map(
        (x) => html`<use href="#cross" class="v" x="${x}" y="6"/>`,
      )}</svg></div>`
}`
}

interface Mark {
  readonly x: string
  readonly atMs: number
  /** The number of its first step. */
  readonly number: number
  readonly texts: string[]
  /** How many of its steps have no text here. */
  omitted: number
  readonly masters: Set<string>
}

/**
 * Steps at the same moment share a mark. If there are more than `most` steps, so do steps at almost the same time, and
 * a mark has only the text of its first step.
 */
function marksOf(steps: RunHistory['steps'], untilMs: number, most: number): readonly Mark[] {
  const places = steps.length > most ? most : 10_000
  const marks = new Map<string, Mark>()
  for (const [index, { atMs, text, masters }] of steps.entries()) {
    const x = percent(Math.round((atMs / untilMs) * places) / places)
    const mark = marks.get(x)
    if (mark === undefined) {
      marks.set(x, { x, atMs, number: index + 1, texts: [text], omitted: 0, masters: new Set(masters) })
      continue
    }
    if (steps.length > most) mark.omitted++
    else mark.texts.push(text)
    for (const master of masters) mark.masters.add(master)
  }
  return [...marks.values()]
}

/** Bars that show the counts of bins, with one fill for each kind. The label has the highest rate per second. */
function rates(
  names: readonly string[],
  { occurrences: bins }: RunHistory,
  untilMs: number,
  fill: Readonly<Partial<Record<Occurrence, string>>>,
): Html {
  const kinds = Object.keys(fill) as Occurrence[]
  const most = mostPerSecond(bins, kinds)
  const highest = (most * bins.widthMs) / 1000
  const bars = bins.counts.flatMap((counts, index) => {
    let below = 0
    return kinds.flatMap((kind) => {
      const height = counts[kind] / highest
      if (!(height > 0)) return []
      below += height
      const [x, width] = [(index * bins.widthMs) / untilMs, (bins.widthMs * 0.9) / untilMs]
      return [
        html`<rect class="${fill[kind]}" x="${percent(x)}" width="${percent(Math.min(width, 1 - x))}" y="${percent(1 - below)}" height="${percent(height)}"/>`,
      ]
    })
  })
  return html`<div class="row"><div class="what">${names.map((name) => html`<span>${name}</span>`)}<span>most ${rate(most)}</span></div><svg class="bars">${bars}</svg></div>
`
}

function rate(perSecond: number): string {
  return String(Number(perSecond.toFixed(perSecond < 10 ? 1 : 0)))
}

function spansOf({ masters, unownedAddresses }: RunHistory): readonly Span[] {
  const ofMasters = masters.flatMap(({ tracks }): readonly (readonly Span[])[] => Object.values(tracks))
  return [...ofMasters, ...unownedAddresses.map(({ slice }) => slice)].flat()
}

/**
 * The shortest length of a drawn span, in milliseconds. 0 draws all spans. If there are more than `most`, only the
 * longest are drawn.
 */
function shortestDrawn(history: RunHistory, most: number): number {
  const lengths = spansOf(history)
    .filter(({ state }) => fills[state] !== undefined)
    .map(lengthOf)
  if (lengths.length <= most) return 0
  const longestFirst = lengths.sort((a, b) => b - a)
  // All spans with the length of the first span beyond `most` are left out.
  return (longestFirst[most] ?? 0) + 0.001
}

/** The patterns and marks to which charts refer. A page must contain them once. */
export const definitions: Html = markup(`<svg class="defs" aria-hidden="true" focusable="false"><defs>
<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="p1" d="M1.5 0v6"/></pattern>
<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><circle class="p2" cx="2.5" cy="2.5" r="1.5"/></pattern>
<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"><path class="p0" d="M0 0h5v5h-5z"/><path class="p3" d="M0 0l5 5M5 0l-5 5"/></pattern>
<path id="fault" d="M0 8l-4.5-7h9z"/><path id="cross" d="M-4-4l8 8M4-4l-8 8"/></defs></svg>`)

function legend(seen: { readonly leases: boolean; readonly violations: boolean }): Html {
  const swatch = (fill: string): Html =>
    html`<svg aria-hidden="true"><rect class="${fill}" y="2" width="100%" height="8"/></svg>`
  const mark = (id: string, kind: string): Html =>
    html`<svg aria-hidden="true"><svg x="50%" overflow="visible"><use href="#${id}" class="${kind}" y="${id === 'fault' ? 2 : 6}"/></svg></svg>`
  const nothing = html`<svg aria-hidden="true"><line class="base" x2="100%" y1="6" y2="6"/></svg>`
  const both = html`<svg aria-hidden="true"><rect class="l" width="100%" height="3"/><rect class="l" y="5" width="100%" height="6"/></svg>`
  return html`<ul class="legend" aria-label="How to read the charts">
<li>${swatch('s')} the process runs, the server is ready
<li>${swatch('u')} stopping, or not ready
<li>${swatch('q')} frozen, silent, or black-holed to clients
<li>${swatch('c')} clients are served
<li>${both} in Endpoints (thin) and in the EndpointSlice (thick)
<li>${swatch('d')} listed, although no client was served there
${seen.leases ? html`<li>${swatch('h')} its lease is held` : undefined}
<li>${swatch('r')} client errors: refused
<li>${swatch('b')} client errors: black-holed
<li>${swatch('o')} client errors: no address known
<li>${nothing} base line only: down, refused, not listed, no lease
<li>${mark('fault', 'm')} a step, by its number, and at each master that it acted on
${seen.violations ? html`<li>${mark('cross', 'v')} something did not hold` : undefined}
</ul>`
}
