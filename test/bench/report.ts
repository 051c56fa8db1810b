/** What one bench found. */
export interface Report {
  readonly title: string
  /** How it was measured, so that a reader can repeat it. */
  readonly method: string
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
  readonly bounds: readonly Bound[]
}

/** A promised limit, and the measured value. */
export interface Bound {
  readonly name: string
  readonly limit: number
  readonly value: number
  readonly unit: string
}

export function isMet({ value, limit }: Bound): boolean {
  return value <= limit
}

/** Of an empty list it is NaN, which meets no bound. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** A number as a table shows it: three digits, or more where the whole part has more. */
export function shown(value: number): string {
  if (Number.isNaN(value)) return '–'
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3)
}

/** The report as Markdown, which is also how it is printed. */
export function markdown({ title, method, header, rows, bounds }: Report): string {
  const verdicts = bounds.map((bound) => {
    const [found = '', most = ''] = [shown(bound.value), `${bound.limit}`].map((text) => `${text} ${bound.unit}`.trim())
    return [bound.name, found, most, isMet(bound) ? 'met' : '**missed**']
  })
  const promised = bounds.length === 0 ? [] : [...table([['bound', 'found', 'at most', ''], ...verdicts]), '']
  return [`## ${title}`, '', method, '', ...table([header, ...rows]), '', ...promised].join('\n')
}

function table(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const [head = [], ...body] = rows
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)]
}
