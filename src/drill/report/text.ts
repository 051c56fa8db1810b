import { formatDuration } from '../../documents/duration.ts'
import { printable } from '../../runtime/errors.ts'
import { sentenceOf } from '../../verify/invariants.ts'
import { brokenInvariants, failedAsKnown } from './failures.ts'
import type { Distribution, DrillReport, Figures, VariantReport } from './report.ts'

const WIDTH = 100

/**
 * The report for a terminal. The last line contains the verdict, and the command that repeats the drill or, without a
 * command, the seed. Lines have at most 100 columns, except lines with a long name, word or command. Ends without a
 * newline.
 */
export function renderText(report: DrillReport): string {
  const { scenario, variants, unchecked, idle, hostLate, command, seed } = report
  const failed = variants.flatMap(describeViolations)
  const known = variants.flatMap(describeKnownFailures)
  const again = command === '' ? `seed ${seed}` : command
  const blocks: readonly (readonly string[])[] = [
    [...wrap(`${scenario.name}: ${scenario.description}`, ''), describeRuns(report)],
    failed.length === 0 ? [] : ['Did not hold:', ...failed],
    known.length === 0 ? [] : ['Known failures:', ...known],
    hostLate === undefined ? [] : wrap(hostLate, ''),
    unchecked === undefined ? [] : wrap(unchecked, ''),
    idle === undefined ? [] : wrap(idle, ''),
    ['Figures, times as p50 / p99 / max:', ...renderFigureTable(variants, WIDTH)],
    [`${verdict(report)}: ${again}`],
  ]
  return blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join('\n'))
    .join('\n\n')
}

function verdict({ held, unchecked, variants }: DrillReport): string {
  if (held && unchecked !== undefined) return 'held, but not everything could be judged'
  return held ? 'held' : failedAsKnown(variants) ? 'did not hold, by known failures alone' : 'did not hold'
}

function describeRuns({ target, seed, variants, scenario: { fleet, durationMs } }: DrillReport): string {
  const runs = variants[0]?.runs.length ?? 0
  const often = runs === 1 ? `seed ${seed}` : `${runs} runs, seeds ${seed} to ${seed + runs - 1}`
  const times = `TTL ${formatDuration(fleet.leaseTtlMs)}, interval ${formatDuration(fleet.reconcileIntervalMs)}`
  return `${target}, ${formatDuration(durationMs)}, ${often}, ${fleet.masters.length} masters, ${times}`
}

function describeViolations(variant: VariantReport): readonly string[] {
  return brokenInvariants(variant).flatMap(({ invariant, first, times, seeds }) => {
    const more = times === 1 ? '' : `, and ${times - 1} more${seeds.length === 1 ? '' : ` in ${seeds.length} runs`}`
    return [
      `  ${invariant} with ${variant.name}`,
      ...wrap(sentenceOf(invariant), '    '),
      ...wrap(`+${(first.atMs / 1000).toFixed(3)}s, seed ${first.seed}: ${printable(first.detail)}${more}`, '    '),
    ]
  })
}

function describeKnownFailures({ name, knownFailures }: VariantReport): readonly string[] {
  return knownFailures.flatMap(({ sentence, count }) => wrap(`${name}: ${sentence} (seen ${count}x)`, '  '))
}

/** Only a longer word makes a line longer than {@link WIDTH}. */
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

interface FigureRow {
  /** Contains the unit, if there is one. Has at most 20 characters, so that four columns fit a terminal. */
  readonly name: string
  readonly cell: (figures: Figures) => string
  /** The row appears only if this is true for the figures of at least one column. @default always true */
  readonly onlyIf?: (figures: Figures) => boolean
}

export const figureRows: readonly FigureRow[] = [
  ...distributionRows('time to detect', ({ timeToDetect }) => timeToDetect),
  ...distributionRows('time to remove', ({ timeToRemove }) => timeToRemove),
  ...distributionRows('time to re-add', ({ timeToAddAgain }) => timeToAddAgain),
  { name: 'flaps', cell: ({ flaps }) => `${flaps}` },
  { name: 'dead listed too long', cell: ({ deadListedTooLong }) => `${deadListedTooLong}` },
  { name: 'dead at the end', cell: ({ deadListedAtEnd }) => `${deadListedAtEnd}` },
  { name: 'fewest listed', cell: ({ fewestListed }) => `${fewestListed}` },
  { name: 'nobody listed (s)', cell: ({ emptyMs }) => seconds(emptyMs) },
  { name: 'dead one listed (s)', cell: ({ deadListedMs }) => seconds(deadListedMs) },
  { name: 'connections', cell: ({ connections }) => `${connections.total}` },
  { name: '  not served (%)', cell: ({ connections }) => percent(connections.deadShare) },
  { name: '  refused (%)', cell: shareOf(({ refused }) => refused) },
  { name: '  black-holed (%)', cell: shareOf(({ blackHoled }) => blackHoled) },
  { name: '  no address (%)', cell: shareOf(({ nobody }) => nobody) },
  { name: '  failed after stop', cell: ({ connections }) => `${connections.notServedAfterStop}` },
  { name: 'writes', cell: ({ writes }) => `${writes.total}` },
  { name: '  most in 10 s', cell: ({ writes }) => `${writes.mostInTenSeconds}` },
]

/**
 * The figures as a table with one row per figure. Columns that do not fit `width` go into a further table below.
 * Returns lines without newlines.
 */
export function renderFigureTable(
  columns: readonly { readonly name: string; readonly figures: Figures }[],
  width: number,
): readonly string[] {
  const rows = figureRows.filter(({ onlyIf = () => true }) => columns.some(({ figures }) => onlyIf(figures)))
  const headWidth = Math.max(...rows.map(({ name }) => name.length))
  const cells = columns.map(({ name, figures }) => [name, ...rows.map(({ cell }) => cell(figures))])
  const tables: string[][][] = []
  let leftOver = 0
  for (const column of cells) {
    const columnWidth = Math.max(...column.map(({ length }) => length)) + 2
    const padded = column.map((text) => text.padStart(columnWidth))
    const table = tables.at(-1)
    if (table !== undefined && columnWidth <= leftOver) table.push(padded)
    else {
      tables.push([padded])
      leftOver = width - headWidth
    }
    leftOver -= columnWidth
  }
  const heads = ['', ...rows.map(({ name }) => name)].map((name) => name.padEnd(headWidth))
  return tables.flatMap((table, index) => [
    ...(index === 0 ? [] : ['']),
    ...heads.map((head, row) => [head, ...table.map((column) => column[row] ?? '')].join('').trimEnd()),
  ])
}

function distributionRows(name: string, of: (figures: Figures) => Distribution): readonly FigureRow[] {
  return [
    {
      name: `${name} (s)`,
      cell: (figures) => {
        const { p50Ms, p99Ms, maxMs } = of(figures)
        return p50Ms === undefined ? '-' : [p50Ms, p99Ms, maxMs].map(seconds).join(' / ')
      },
    },
    {
      name: '  times measured',
      cell: (figures) => `${of(figures).count}`,
      onlyIf: (figures) => of(figures).count > 1,
    },
    {
      name: '  not until the end',
      cell: (figures) => `${of(figures).never}`,
      onlyIf: (figures) => of(figures).never > 0,
    },
  ]
}

/** Milliseconds as seconds: below 10 s with two decimals, below 100 s with one, otherwise without. */
function seconds(ms: number | undefined = 0): string {
  const value = ms / 1000
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)
}

function shareOf(count: (connections: Figures['connections']) => number): (figures: Figures) => string {
  return ({ connections }) => percent(connections.total === 0 ? 0 : count(connections) / connections.total)
}

/** A share as a percentage with two decimals. A positive share that would round to zero is `<0.01`. */
function percent(share: number): string {
  return share > 0 && share < 0.00005 ? '<0.01' : (share * 100).toFixed(2)
}
