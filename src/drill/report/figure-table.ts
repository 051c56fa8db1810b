import type { Distribution, Figures } from '../report.ts'

/** One figure in words, with its unit in the name; names have at most 20 characters, so that four columns fit a terminal. */
export interface FigureRow {
  readonly name: string
  readonly cell: (figures: Figures) => string
  /** It says nothing where it is nought for everybody. */
  readonly onlyIf?: (figures: Figures) => boolean
}

/** Every figure, in the order in which reports tell them. */
export const figureRows: readonly FigureRow[] = [
  ...distributionRows('time to detect', ({ timeToDetect }) => timeToDetect),
  ...distributionRows('time to remove', ({ timeToRemove }) => timeToRemove),
  ...distributionRows('time to re-add', ({ timeToAddAgain }) => timeToAddAgain),
  { name: 'flaps', cell: ({ flaps }) => `${flaps}` },
  { name: 'dead kept too long', cell: ({ keptDead }) => `${keptDead}` },
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
 * The figures as a table: a row for each figure, a column for each of those whose figures they are. Columns for which there is no room
 * within `width` come in a table of their own below. Lines without newlines.
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

/** Milliseconds as seconds with three digits that matter, and no more than hundredths. */
function seconds(ms: number | undefined = 0): string {
  const value = ms / 1000
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)
}

function shareOf(count: (connections: Figures['connections']) => number): (figures: Figures) => string {
  return ({ connections }) => percent(connections.total === 0 ? 0 : count(connections) / connections.total)
}

/** A share as a percentage in hundredths; what is too little for that is not nothing. */
function percent(share: number): string {
  return share > 0 && share < 0.00005 ? '<0.01' : (share * 100).toFixed(2)
}
