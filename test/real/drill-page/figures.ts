import type { Page } from 'playwright-core'
import type { DrillReport } from '../../../src/drill/report/report.ts'
import type { InBrowser } from './chromium.ts'

/** The texts of the cells of a table, by their headers: group, row, column. */
export type Table = Readonly<Record<string, string>>

/**
 * The tables of a page as a person reads them, by the names of their regions. Text that is not rendered is left out.
 */
export async function readTables(page: Page): Promise<Readonly<Record<string, Table>>> {
  return page.locator('[role=region]').evaluateAll((regions) => {
    const read = (element: InBrowser): string =>
      element?.checkVisibility({ visibilityProperty: true, opacityProperty: true })
        ? // biome-ignore lint/performance/useDomNodeTextContent: what is not rendered must not count.
          element.innerText.replaceAll(/[\s\u00A0]+/g, ' ').trim()
        : ''
    const tables: Record<string, Record<string, string>> = {}
    for (const region of regions) {
      const cells: Record<string, string> = {}
      const columns = [...region.querySelectorAll('thead th')].map(read)
      for (const group of region.querySelectorAll('tbody')) {
        const heading = group.querySelector('th[scope=rowgroup]')
        const name = heading?.firstChild?.textContent?.trim() ?? ''
        for (const row of group.querySelectorAll('tr')) {
          const header = read(row.querySelector('th[scope=row]'))
          for (const cell of row.querySelectorAll('td')) {
            cells[[name, header, columns[cell.cellIndex]].join(' / ')] = read(cell)
          }
        }
      }
      tables[region.getAttribute('aria-label') ?? ''] = cells
    }
    return tables
  })
}

export function tableOf(tables: Readonly<Record<string, Table>>, name: string): Table {
  return tables[name] ?? {}
}

/** The name on the page of each number of the figures. A number that is not here fails the test. */
const places: Readonly<Record<string, string>> = {
  ...distribution('timeToDetect', 'Time to detect'),
  ...distribution('timeToRemove', 'Time to remove'),
  ...distribution('timeToAddAgain', 'Time to add again'),
  deadListedTooLong: 'Dead listed too long / times',
  flaps: 'Flaps / times',
  deadListedAtEnd: 'Dead at the end / addresses',
  emptyMs: 'Nobody listed / empty for',
  deadListedMs: 'Dead and listed / dead listed for',
  fewestListed: 'Fewest listed / addresses',
  'connections.total': 'Connections of clients / in all',
  'connections.served': 'Connections of clients / served',
  'connections.refused': 'Connections of clients / refused',
  'connections.blackHoled': 'Connections of clients / black-holed',
  'connections.nobody': 'Connections of clients / no address known',
  'connections.deadShare': 'Connections of clients / share not served',
  'connections.notServedAfterStop': 'Connections of clients / not served after a stop',
  'writes.total': 'Writes / in all',
  'writes.mostInTenSeconds': 'Writes / most of one master in 10 s',
}

function distribution(key: string, name: string): Record<string, string> {
  return {
    [`${key}.count`]: `${name} / measured`,
    [`${key}.never`]: `${name} / not until the end`,
    [`${key}.p50Ms`]: `${name} / p50`,
    [`${key}.p99Ms`]: `${name} / p99`,
    [`${key}.maxMs`]: `${name} / max`,
  }
}

interface Expected {
  readonly table: string
  readonly path: string
  readonly text: string
}

/** The cell that must show each number of the report's figures. Samples are left out: they have tables of their own. */
export function expectedCells({ variants }: DrillReport): {
  readonly numbers: number
  readonly cells: readonly Expected[]
} {
  const cells = variants.flatMap(({ name, figures }) =>
    leaves('', figures).map(({ key, value }) => ({
      table: 'All figures',
      path: `${places[key] ?? `unknown figure ${key}`} / ${name}`,
      text: textOf(key, value),
    })),
  )
  return { numbers: cells.length, cells }
}

function leaves(prefix: string, value: unknown): readonly { readonly key: string; readonly value: number }[] {
  if (typeof value === 'number') return [{ key: prefix, value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'samples' ? [] : leaves(prefix === '' ? key : `${prefix}.${key}`, inner),
  )
}

function textOf(key: string, value: number): string {
  if (key.endsWith('Ms')) return `${(value / 1000).toFixed(3)} s`
  if (key.endsWith('Share')) return `${(value * 100).toFixed(3)} %`
  return String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
}
