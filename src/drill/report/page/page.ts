import { formatDuration } from '../../../documents/duration.ts'
import { sentenceOf } from '../../../verify/invariants.ts'
import { describeStep, renderScenario } from '../../scenario/render.ts'
import type { Step } from '../../scenario/scenario.ts'
import { brokenInvariants } from '../failures.ts'
import type { DrillReport, VariantReport } from '../report.ts'
import { figuresTable, glance, samples } from './figures.ts'
import { type Cell, count, counted, type Html, html, listed, markup, type Part, seconds, table } from './html.ts'
import { styles } from './styles.ts'
import { definitions, timelines } from './timeline.ts'

/** The Content-Security-Policy, which forbids the page to load anything from elsewhere. */
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

/**
 * The whole report as `report.html`: one page without scripts and without other files. Its size does not grow with the
 * length of the histories, but with the number of charts, samples and violations. Pure.
 */
export function renderPage(report: DrillReport): string {
  const { scenario, variants, target, version, unchecked, idle, hostLate } = report
  const breaches = violations(variants)
  const sections = [
    ...(breaches === undefined ? [] : [['violations', 'What did not hold']]),
    ['scenario', 'Scenario'],
    ['timelines', 'What happened'],
    ['figures', 'Figures'],
    ['samples', 'Samples'],
    ['runs', 'Runs'],
  ]
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="icon" href="data:,">
<title>Failover drill: ${scenario.name}, ${report.held ? 'held' : 'did not hold'}</title>
<style>${markup(styles)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
${definitions}
<header>
<h1>Failover drill: ${scenario.name}</h1>
${verdict(report)}
${hostLate === undefined ? undefined : html`<p>${hostLate}</p>`}${unchecked === undefined ? undefined : html`<p>${unchecked}</p>`}${idle === undefined ? undefined : html`<p>${idle}</p>`}
<p>${scenario.description}</p>
</header>
<nav aria-label="Sections"><ul>${sections.map(([id = '', name]) => html`<li><a href="#${id}">${name}</a>`)}</ul></nav>
<main id="main" tabindex="-1">
${breaches}
<div class="columns">
<div class="card">${glance(variants)}</div>
${knownFailures(variants)}
</div>
${scenarioSection(report)}
${timelines(report)}
<div class="beside">
<section class="card" aria-labelledby="figures"><h2 id="figures">Figures</h2>
${figuresTable(variants)}</section>
<section aria-labelledby="samples"><h2 id="samples">Samples</h2>
${samples(variants)}</section>
</div>
<section class="card" aria-labelledby="runs"><h2 id="runs">Runs</h2>
${runs(variants)}</section>
</main>
<footer>${report.kind} ${report.apiVersion}, made by apiserver-bootstrap ${version} on ${target === 'sim' ? 'the simulator' : 'real processes'}. report.json beside this page holds the same, and the events of the recorded runs.</footer>
</body>
</html>
`
  return page.toString()
}

/** The marks of the two verdicts differ in shape, and not only in colour. */
function verdict({ held, variants }: DrillReport): Html {
  const runs = variants.reduce((sum, variant) => sum + variant.runs.length, 0)
  const fallen = variants.filter((variant) => !variant.held)
  const violations = variants.flatMap((variant) => variant.runs).reduce((sum, run) => sum + run.violations.length, 0)
  const of = `${counted(runs, 'run')} of ${counted(variants.length, 'reconciler')}`
  const sentence = held
    ? `Held: all invariants held in ${of}.`
    : `Did not hold: ${counted(violations, 'violation')} in ${of}, with ${listed(fallen.map(({ name }) => name))}.`
  const shape = markup(held ? '<path d="M5 12.5l4.5 4.5L19 7.5"/>' : '<path d="M6 6l12 12M18 6L6 18"/>')
  return html`<p class="verdict ${held ? 'held' : 'broken'}"><svg viewBox="0 0 24 24" aria-hidden="true">${shape}</svg><span>${sentence}</span></p>`
}

/** The broken invariants, each with its first violation; undefined if all invariants held. */
function violations(variants: readonly VariantReport[]): Html | undefined {
  const fallen = variants.filter(({ held }) => !held)
  if (fallen.length === 0) return undefined
  return html`<section class="card breach" aria-labelledby="violations"><h2 id="violations">What did not hold</h2>
${fallen.map(
  (variant) => html`<h3>${variant.name}</h3>
<ul class="list">${brokenInvariants(variant).map(
    ({ invariant, first, times, seeds }) =>
      html`<li><strong>${sentenceOf(invariant)}</strong>${
        sentenceOf(invariant) === invariant ? undefined : html` <code>${invariant}</code>`
      }<br>${first.detail} <span class="aside">at ${seconds(first.atMs)}, seed ${first.seed}${
        times === 1
          ? undefined
          : html`; ${count(times)} times, with ${seeds.length === 1 ? 'this seed' : `${count(seeds.length)} seeds`}`
      }</span>\n`,
  )}</ul>`,
)}
</section>`
}

/** The known failures that occurred; undefined without any. */
function knownFailures(variants: readonly VariantReport[]): Html | undefined {
  const known = variants.filter((variant) => variant.knownFailures.length > 0)
  if (known.length === 0) return undefined
  return html`<section class="card" aria-labelledby="known"><h2 id="known">Known failures of these reconcilers that occurred</h2>
<ul class="list">${known.flatMap(({ name, knownFailures }) =>
    knownFailures.map(
      (one) => html`<li><strong>${name}</strong>: ${one.sentence} <span class="aside">(${count(one.count)})</span>\n`,
    ),
  )}</ul></section>`
}

/** The page lists at most this many violations of a variant. */
const MOST_VIOLATIONS = 1000

function runs(variants: readonly VariantReport[]): Html {
  const groups = variants.map(({ name, runs }) => {
    const held = runs.filter(({ violations }) => violations.length === 0).map(({ seed }) => seed)
    const broken = runs.flatMap(({ seed, violations }) => violations.map((violation) => ({ seed, ...violation })))
    const rows: readonly (Part | Cell)[][] = broken
      .slice(0, MOST_VIOLATIONS)
      .map(({ seed, invariant, atMs, detail }) => [
        String(seed),
        { text: invariant, broken: true },
        seconds(atMs),
        detail,
      ])
    const more = broken.length - rows.length
    return {
      name,
      rows: [
        ...rows,
        ...(more > 0 ? [['', `${counted(more, 'further violation')}, see report.json`, '–', '–']] : []),
        ...(held.length > 0 ? [[seedsText(held), html`<span class="held">held</span>`, '–', '–']] : []),
      ],
    }
  })
  return table({
    label: 'Every run',
    caption: 'Every run',
    columns: [
      { name: 'seed' },
      { name: 'what did not hold' },
      { name: 'at', numbers: true },
      { name: 'where, and of whom' },
    ],
    groups,
    tall: true,
  })
}

/** Ascending seeds as text: `1 to 3, 5`. */
function seedsText(seeds: readonly number[]): string {
  const spans: [first: number, last: number][] = []
  for (const seed of seeds) {
    const span = spans.at(-1)
    if (span?.[1] === seed - 1) span[1] = seed
    else spans.push([seed, seed])
  }
  return spans.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`)).join(', ')
}

function scenarioSection({ scenario, command, target, seed, variants }: DrillReport): Html {
  const { fleet, clients, bounds, durationMs, steps } = scenario
  return html`<section class="card" aria-labelledby="scenario"><h2 id="scenario">Scenario</h2>
${command === '' ? undefined : html`<p>This makes the report again:</p>\n<pre><code>${command}</code></pre>`}
<div class="columns">
<div>${pairs([
    ['target', target === 'sim' ? `simulated, from seed ${seed}` : `real processes; clients pick from seed ${seed}`],
    ['masters', String(fleet.masters.length)],
    ['lasts', formatDuration(durationMs)],
    ['lease', `TTL ${formatDuration(fleet.leaseTtlMs)}, interval ${formatDuration(fleet.reconcileIntervalMs)}`],
    [
      'fleet in the file',
      `${fleet.reconciler}, store ${fleet.leaseStore}, ${fleet.apiserverCount} places for master-count`,
    ],
    ['readiness gate', fleet.readinessGate],
    ['at a stop', fleet.onShutdown],
    [
      'clients',
      `${clients.count}, each connects every ${formatDuration(clients.intervalMs)}; a change reaches them in ${formatDuration(clients.watchDelayMs)}; they give up after ${formatDuration(clients.timeoutMs)}`,
    ],
    ['latency', latencyText(variants[0]?.latency)],
  ])}</div>
<div>${pairs([
    ['removal margin', `${formatDuration(bounds.removalMarginMs)} after the lease’s end`],
    ['listed within', formatDuration(bounds.listedMs)],
    ['objects agree within', formatDuration(bounds.agreementMs)],
    ['in sync within', `${formatDuration(bounds.recoveryMs)} after the last fault`],
    ['writes', `at most ${bounds.writesPerTenSeconds} of a master in 10s`],
  ])}</div></div>
<details><summary>The ${counted(steps.length, 'step')}, and the scenario as a file</summary>
${stepsTable(steps)}
<p id="file">A file that <code>drill FILE</code> takes:</p>
<div class="tall" role="region" aria-labelledby="file" tabindex="0"><pre><code>${renderScenario(scenario)}</code></pre></div></details>
</section>`
}

/** The latency of messages in the simulator, which is the same for all variants. */
function latencyText(latency: VariantReport['latency']): string {
  if (latency === undefined) return 'that of the real connections'
  return `${latency.fromMs} to ${latency.toMs} ms a message, ${latency.spikes ? 'and sometimes late' : 'never late'}`
}

function pairs(list: readonly (readonly [string, string])[]): Html {
  return html`<dl class="pairs">${list.map(([term, text]) => html`<dt>${term}<dd>${text}\n`)}</dl>`
}

function stepsTable(steps: readonly Step[]): Html {
  const whom = (step: Step): readonly string[] => {
    const { masters = [] } = 'masters' in step ? step : {}
    return masters === 'all' ? ['all'] : masters
  }
  return table({
    label: 'Steps',
    caption: 'Steps',
    columns: [{ name: 'at' }, { name: 'step' }],
    groups: [{ rows: steps.map((step) => [formatDuration(step.atMs), describeStep(step, whom(step))]) }],
    tall: true,
  })
}
