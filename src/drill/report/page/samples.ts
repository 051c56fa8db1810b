import type { Distribution, VariantReport } from '../../report.ts'
import { axis, axisUnit, ticks } from './axis.ts'
import { counted, percent, seconds } from './format.ts'
import { type Html, html } from './html.ts'
import { table } from './table.ts'

const kinds = [
  { key: 'timeToDetect', name: 'Time to detect' },
  { key: 'timeToRemove', name: 'Time to remove' },
  { key: 'timeToAddAgain', name: 'Time to add again' },
] as const

/** Each measured time: a stroke for each on one axis for all variants, and all of them in tables. */
export function samples(variants: readonly VariantReport[]): Html {
  return html`<div class="stack">${kinds.map(({ key, name }) => {
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
    return html`<div class="row"><div class="who"><b>${variant}</b> <span>${said(of)}</span></div><svg class="samples"><line class="base" x2="100%" y1="50%" y2="50%"/>${strokes}${median}</svg></div>
`
  })
  const description = `${name} by reconciler. ${distributions.map(({ variant, of }) => `${variant}: ${said(of)}.`).join(' ')}`
  const lines = ticks(untilMs).map((ms) => html`<line x1="${at(ms)}" x2="${at(ms)}" y2="100%"/>`)
  return html`<div class="chart"><div class="plot strip" role="img" aria-label="${description}">
<svg class="guides tick">${lines}</svg>
${rows}
<div class="row"><div class="what">${axisUnit(untilMs)}</div>${axis(untilMs)}</div>
</div></div><p class="aside small">A stroke is a sample; the triangle points at the median.</p>`
}

function said({ count, never, p50Ms, maxMs }: Distribution): string {
  const measured = count === 0 ? 'nothing measured' : `${seconds(p50Ms)} p50, ${seconds(maxMs)} max, of\u00A0${count}`
  return never === 0 ? measured : `${measured}; ${never} never`
}

function samplesTable(name: string, variant: string, { samples: all }: Distribution): Html {
  if (all.length === 0) return html`<p class="small">${variant}: nothing was measured.</p>`
  return table({
    label: `${name}, every sample of ${variant}`,
    caption: html`${variant} <span class="aside">${counted(all.length, 'sample')}</span>`,
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
