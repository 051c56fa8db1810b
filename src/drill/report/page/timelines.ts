import type { DrillReport, RunReport, VariantReport } from '../../report.ts'
import { facts, stepList, VISIBLE_STEPS } from './facts.ts'
import { counted, seconds } from './format.ts'
import { type RunHistory, readHistory } from './history.ts'
import { type Html, html } from './html.ts'
import { legend } from './legend.ts'
import { lengthOf } from './spans.ts'
import { type Room, timeline } from './timeline.ts'

/** How many spans are drawn, rows told and faults marked on the whole page: with the longest of histories it stays a small file. */
const MOST_SPANS = 1_200
const MOST_MARKS = 360

/** The runs, the variants side by side, all along the same time. */
export function timelines({ variants, scenario }: DrillReport): Html {
  const told = variants.map((variant) => ({
    variant,
    runs: chosen(variant).map((run) => ({ run, history: readHistory(run.events ?? [], scenario.durationMs) })),
  }))
  const histories = told.flatMap(({ runs }) => runs.map(({ history }) => history))
  const untilMs = Math.max(1, ...histories.map((history) => history.untilMs))
  const charts = Math.max(1, histories.length)
  const room = { untilMs, most: Math.floor(MOST_SPANS / charts), mostMarks: Math.floor(MOST_MARKS / charts) }
  const rows = {
    leases: histories.some(({ seen }) => seen.leases),
    violations: histories.some(({ violations }) => violations.length > 0),
  }
  return html`<section aria-labelledby="timelines"><h2 id="timelines">What happened</h2>
<div class="card">${legend(rows)}</div>
<div class="columns runs">${told.map(
    ({ variant, runs }) => html`<div class="card"><h3>${variant.name} ${
      variant.held ? html`<span class="held">held</span>` : html`<span class="broken">did not hold</span>`
    }</h3>
${runs.map(({ run, history }) => oneRun(variant.name, run, history, { ...room, rows }))}
${unshown(variant.runs.length - runs.length)}</div>
`,
  )}</div></section>`
}

function oneRun(name: string, { seed }: RunReport, history: RunHistory, room: Room): Html {
  const title = `${name}, seed ${seed}`
  const { steps } = history
  return html`<figure><h4>Seed ${seed}</h4>
${timeline(history, { ...room, description: `Timeline of ${title}. ${described(history)} The same is told below as tables.` })}
<figcaption class="aside small">${described(history)}</figcaption>
${steps.length > 0 && steps.length <= VISIBLE_STEPS ? stepList(history, room.most) : undefined}
${facts(history, { name: title, most: room.most })}</figure>
`
}

/** What is to be seen, in short. */
function described({ masters, steps, violations, untilMs, seen }: RunHistory): string {
  const dead = masters.flatMap(({ name, slice }) => {
    const ms = slice.filter(({ state }) => state === 'dead').reduce((sum, span) => sum + lengthOf(span), 0)
    return ms === 0 ? [] : [`${name} for ${seconds(ms)}`]
  })
  const sentences = [
    `${counted(masters.length, 'master')}, ${counted(steps.length, 'fault')}, ${seconds(untilMs)}.`,
    dead.length === 0
      ? 'Nobody was listed while no client was served there.'
      : `Listed although no client was served: ${dead.join(', ')}.`,
  ]
  if (violations.length > 0) sentences.push(`${counted(violations.length, 'violation')}.`)
  if (!seen.leases) sentences.push('It has no leases, or none that are seen.')
  return sentences.join(' ')
}

/** The first run, and the first one that did not hold. */
function chosen({ runs }: VariantReport): readonly RunReport[] {
  const told = runs.filter(({ events }) => events !== undefined)
  const broken = told.find(({ violations }) => violations.length > 0)
  return [...new Set([...told.slice(0, 1), ...(broken === undefined ? [] : [broken])])]
}

function unshown(number: number): Html | undefined {
  if (number === 0) return undefined
  const rest =
    number === 1 ? 'is not drawn; its seed and violations are' : 'are not drawn; their seeds and violations are'
  return html`<p class="aside small">${counted(number, 'more run')} ${rest} <a href="#runs">below</a>.</p>`
}
