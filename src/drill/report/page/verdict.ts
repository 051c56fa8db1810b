import { sentenceOf } from '../../../verify/invariants.ts'
import type { DrillReport, VariantReport } from '../../report.ts'
import { count, counted, listed, seconds } from './format.ts'
import { type Html, html, markup, type Part } from './html.ts'
import { type Cell, table } from './table.ts'

/** Held or not, in one sentence with a mark that is not only of another colour. */
export function verdict({ held, variants }: DrillReport): Html {
  const runs = variants.reduce((sum, variant) => sum + variant.runs.length, 0)
  const fallen = variants.filter((variant) => !variant.held)
  const violations = variants.flatMap((variant) => variant.runs).reduce((sum, run) => sum + run.violations.length, 0)
  const of = `${counted(runs, 'run')} of ${counted(variants.length, 'reconciler')}`
  const sentence = held
    ? `Held: in ${of} nothing happened that must not.`
    : `Did not hold: ${counted(violations, 'violation')} in ${of}, with ${listed(fallen.map(({ name }) => name))}.`
  const shape = markup(held ? '<path d="M5 12.5l4.5 4.5L19 7.5"/>' : '<path d="M6 6l12 12M18 6L6 18"/>')
  return html`<p class="verdict ${held ? 'held' : 'broken'}"><svg viewBox="0 0 24 24" aria-hidden="true">${shape}</svg><span>${sentence}</span></p>`
}

/** What did not hold: each invariant by its name and sentence, where it was first seen, and how often. Nothing when all held. */
export function violations(variants: readonly VariantReport[]): Html | undefined {
  const fallen = variants.filter(({ held }) => !held)
  if (fallen.length === 0) return undefined
  return html`<section class="card breach" aria-labelledby="violations"><h2 id="violations">What did not hold</h2>
${fallen.map(
  (variant) => html`<h3>${variant.name}</h3>
<ul class="list">${broken(variant).map(
    ({ invariant, first, seed, times, seeds }) =>
      html`<li><strong>${sentenceOf(invariant)}</strong>${
        sentenceOf(invariant) === invariant ? undefined : html` <code>${invariant}</code>`
      }<br>${first.detail} <span class="aside">at ${seconds(first.atMs)}, seed ${seed}${
        times === 1
          ? undefined
          : html`; ${count(times)} times, with ${seeds.length === 1 ? 'this seed' : `${count(seeds.length)} seeds`}`
      }</span>\n`,
  )}</ul>`,
)}
</section>`
}

/** What reconcilers are known for, as far as it was seen. Nothing when none of it was. */
export function knownFailures(variants: readonly VariantReport[]): Html | undefined {
  const known = variants.filter((variant) => variant.knownFailures.length > 0)
  if (known.length === 0) return undefined
  return html`<section class="card" aria-labelledby="known"><h2 id="known">What these reconcilers are known for, and did</h2>
<ul class="list">${known.flatMap(({ name, knownFailures }) =>
    knownFailures.map(
      (one) => html`<li><strong>${name}</strong>: ${one.sentence} <span class="aside">(${count(one.count)})</span>\n`,
    ),
  )}</ul></section>`
}

/** Every run: its seed, and all that did not hold. */
export function runs(variants: readonly VariantReport[]): Html {
  const rows = variants.map(({ name, runs }) => ({
    name,
    rows: runs.flatMap(({ seed, violations }): readonly (readonly (Part | Cell)[])[] =>
      violations.length === 0
        ? [[String(seed), html`<span class="held">held</span>`, '–', '–']]
        : violations.map(({ invariant, detail, atMs }) => [
            String(seed),
            { text: invariant, broken: true },
            seconds(atMs),
            detail,
          ]),
    ),
  }))
  return table({
    label: 'Every run',
    caption: 'Every run',
    columns: [
      { name: 'seed' },
      { name: 'what did not hold' },
      { name: 'at', numbers: true },
      { name: 'where, and of whom' },
    ],
    groups: rows,
    tall: true,
  })
}

function broken({ runs }: VariantReport) {
  const all = runs.flatMap(({ seed, violations }) => violations.map((violation) => ({ seed, violation })))
  return [...new Set(all.map(({ violation }) => violation.invariant))].flatMap((invariant) => {
    const of = all.filter(({ violation }) => violation.invariant === invariant)
    const [first] = of
    if (first === undefined) return []
    const seeds = [...new Set(of.map(({ seed }) => seed))]
    return [{ invariant, first: first.violation, seed: first.seed, times: of.length, seeds }]
  })
}
