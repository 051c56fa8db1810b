import { formatDuration } from '../../documents/duration.ts'
import { printable } from '../../runtime/printable.ts'
import { sentenceOf } from '../../verify/invariants.ts'
import type { DrillReport, VariantReport } from '../report.ts'
import { renderFigureTable } from './figure-table.ts'

/** What a terminal shows. */
const WIDTH = 100

/**
 * The report for a terminal: what did not hold first, then what the reconcilers are known for and what could not be judged, then the table of
 * figures, the reconcilers side by side; the last line says whether all held, and how to see it again. At most 100 columns, but for names and details that are
 * longer. Ends without a newline.
 */
export function renderText(report: DrillReport): string {
  const { scenario, variants, held, unjudged, hostLate, command, seed } = report
  const failed = variants.flatMap(describeViolations)
  const known = variants.flatMap(describeKnownFailures)
  const again = command === '' ? `seed ${seed}` : command
  const blocks: readonly (readonly string[])[] = [
    [...wrap(`${scenario.name}: ${scenario.description}`, ''), describeRuns(report)],
    failed.length === 0 ? [] : ['Did not hold:', ...failed],
    known.length === 0 ? [] : ['Known failures:', ...known],
    hostLate === undefined ? [] : wrap(hostLate, ''),
    unjudged === undefined ? [] : wrap(unjudged, ''),
    ['Figures, times as p50 / p99 / max:', ...renderFigureTable(variants, WIDTH)],
    [`${held ? 'held' : 'did not hold'}: ${again}`],
  ]
  return blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join('\n'))
    .join('\n\n')
}

function describeRuns({ target, seed, variants, scenario: { fleet, durationMs } }: DrillReport): string {
  const runs = variants[0]?.runs.length ?? 0
  const often = runs === 1 ? `seed ${seed}` : `${runs} runs, seeds ${seed} to ${seed + runs - 1}`
  const times = `TTL ${formatDuration(fleet.leaseTtlMs)}, interval ${formatDuration(fleet.reconcileIntervalMs)}`
  return `${target}, ${formatDuration(durationMs)}, ${often}, ${fleet.masters.length} masters, ${times}`
}

/** Each invariant once for each variant: where it was seen first, and how often besides. */
function describeViolations({ name, runs }: VariantReport): readonly string[] {
  const all = runs.flatMap(({ seed, violations }) => violations.map((violation) => ({ ...violation, seed })))
  return [...new Set(all.map(({ invariant }) => invariant))].flatMap((invariant) => {
    const own = all.filter((violation) => violation.invariant === invariant)
    const [first] = own
    if (first === undefined) return []
    const seeds = new Set(own.map(({ seed }) => seed)).size
    const more = own.length === 1 ? '' : `, and ${own.length - 1} more${seeds === 1 ? '' : ` in ${seeds} runs`}`
    return [
      `  ${invariant} with ${name}`,
      ...wrap(sentenceOf(invariant), '    '),
      ...wrap(`+${(first.atMs / 1000).toFixed(3)}s, seed ${first.seed}: ${printable(first.detail)}${more}`, '    '),
    ]
  })
}

function describeKnownFailures({ name, knownFailures }: VariantReport): readonly string[] {
  return knownFailures.flatMap(({ sentence, count }) => wrap(`${name}: ${sentence} (seen ${count}x)`, '  '))
}

/** Lines of at most {@link WIDTH}, where words allow it. */
function wrap(text: string, indent: string): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > WIDTH) {
      lines.push(`${indent}${line}`)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, `${indent}${line}`]
}
