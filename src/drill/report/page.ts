import type { DrillReport } from '../report.ts'
import { figuresTable, glance } from './page/figures.ts'
import { html, markup } from './page/html.ts'
import { definitions } from './page/legend.ts'
import { samples } from './page/samples.ts'
import { scenarioSection } from './page/scenario.ts'
import { styles } from './page/styles.ts'
import { timelines } from './page/timelines.ts'
import { knownFailures, runs, verdict, violations } from './page/verdict.ts'

/** What forbids the page to load anything from anywhere. */
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

/**
 * `report.html`: the whole report as one page that needs nothing else, no script and no other file. What did not hold comes first.
 * Pure: the same report gives the same bytes. However long the histories are, they take less than half a megabyte; samples and violations come on top.
 */
export function renderPage(report: DrillReport): string {
  const { scenario, variants, target, version, unjudged, hostLate } = report
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
${hostLate === undefined ? undefined : html`<p>${hostLate}</p>`}${unjudged === undefined ? undefined : html`<p>${unjudged}</p>`}
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
<footer>${report.kind} ${report.apiVersion}, made by apiserver-bootstrap ${version} on ${target === 'sim' ? 'the simulator' : 'real processes'}. report.json beside this page holds the same, and every event.</footer>
</body>
</html>
`
  return page.toString()
}
