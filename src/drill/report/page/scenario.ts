import { formatDuration } from '../../../documents/duration.ts'
import { renderScenario } from '../../render-scenario.ts'
import type { DrillReport, VariantReport } from '../../report.ts'
import type { Step } from '../../scenario.ts'
import { describeStep } from '../../step-text.ts'
import { counted } from './format.ts'
import { type Html, html } from './html.ts'
import { table } from './table.ts'

/** What was drilled, and the command that makes it again. */
export function scenarioSection({ scenario, command, target, seed, variants }: DrillReport): Html {
  const { fleet, clients, bounds, durationMs, steps } = scenario
  return html`<section class="card" aria-labelledby="scenario"><h2 id="scenario">Scenario</h2>
${command === '' ? undefined : html`<p>This makes the report again:</p>\n<pre><code>${command}</code></pre>`}
<div class="columns">
<div>${pairs([
    ['target', target === 'sim' ? `simulated, from seed ${seed}` : `real processes; clients pick from seed ${seed}`],
    ['masters', String(fleet.masters.length)],
    ['lasts', formatDuration(durationMs)],
    ['lease', `TTL ${formatDuration(fleet.leaseTtlMs)}, interval ${formatDuration(fleet.reconcileIntervalMs)}`],
    ['as written', `${fleet.reconciler}, store ${fleet.leaseStore}, ${fleet.apiserverCount} places for master-count`],
    ['readiness gate', fleet.readinessGate],
    ['at a stop', fleet.onShutdown],
    [
      'clients',
      `${clients.count}, each connects every ${formatDuration(clients.intervalMs)}; a change reaches them in ${formatDuration(clients.watchDelayMs)}; they give up after ${formatDuration(clients.timeoutMs)}`,
    ],
    ...latencies(variants),
  ])}</div>
<div>${pairs([
    ['removal margin', `${formatDuration(bounds.removalMarginMs)} after the lease’s end`],
    ['listed within', formatDuration(bounds.listedMs)],
    ['objects agree within', formatDuration(bounds.agreementMs)],
    ['all right within', `${formatDuration(bounds.recoveryMs)} after the last fault`],
    ['writes', `at most ${bounds.writesPerTenSeconds} of a master in 10s`],
  ])}</div></div>
<details><summary>Its ${counted(steps.length, 'step')}, and the whole as a file</summary>
${stepsTable(steps)}
<p id="file">A file that <code>drill FILE</code> takes:</p>
<div class="tall" role="region" aria-labelledby="file" tabindex="0"><pre><code>${renderScenario(scenario)}</code></pre></div></details>
</section>`
}

/** What the simulator takes messages to need; in one line where it is the same for all. */
function latencies(variants: readonly VariantReport[]): readonly (readonly [string, string])[] {
  const texts = variants.map(({ name, latency }) => ({ name, text: latencyText(latency) }))
  if (new Set(texts.map(({ text }) => text)).size === 1) return [['latency', texts[0]?.text ?? '']]
  return texts.map(({ name, text }) => [`latency, ${name}`, text])
}

function latencyText(latency: VariantReport['latency']): string {
  if (latency === undefined) return 'as it is'
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
