import type { Distribution, Figures, VariantReport } from '../../report.ts'
import { count, seconds, share } from './format.ts'
import { type Html, html, type Part } from './html.ts'
import { type Cell, type Column, type Group, table } from './table.ts'

interface Row<Value> {
  readonly name: string
  readonly text: (value: Value) => string
  /** Whether it is worth to be seen: it would be nothing in a fleet that does well. */
  readonly amiss?: (value: Value) => boolean
}

interface Section<Value> {
  readonly name: string
  readonly sentence: string
  readonly rows: readonly Row<Value>[]
}

const distribution: readonly Row<Distribution>[] = [
  { name: 'measured', text: (one) => count(one.count) },
  { name: 'never until the end', text: (one) => count(one.never), amiss: (one) => one.never > 0 },
  { name: 'p50', text: (one) => seconds(one.p50Ms) },
  { name: 'p99', text: (one) => seconds(one.p99Ms) },
  { name: 'max', text: (one) => seconds(one.maxMs) },
]

const number = (name: string): readonly Row<number>[] => [{ name, text: count, amiss: (value) => value > 0 }]

/** Every figure of a report: a type error here is a figure that the page would lack. */
const sections: { readonly [Name in keyof Figures]: Section<Figures[Name]> } = {
  timeToDetect: {
    name: 'Time to detect',
    sentence:
      'From the moment that a listed address is dead until it has no lease any more. Not measured where no leases are seen.',
    rows: distribution,
  },
  timeToRemove: {
    name: 'Time to remove',
    sentence:
      'From the same moment, or a master’s being told to stop, until the address is not in the EndpointSlice any more.',
    rows: distribution,
  },
  timeToAddAgain: {
    name: 'Time to add again',
    sentence: 'From the moment that a master is well, but not listed, until its address is in the EndpointSlice.',
    rows: distribution,
  },
  keptDead: {
    name: 'Dead kept too long',
    sentence:
      'How often a master’s address was listed for longer than a lease and the margin while no client was served there.',
    rows: number('times'),
  },
  flaps: {
    name: 'Flaps',
    sentence: 'How often an address left while a master of it had been well for six seconds or more.',
    rows: number('times'),
  },
  deadListedAtEnd: {
    name: 'Dead at the end',
    sentence: 'Addresses that were dead, or no master’s, and still listed when the drill ended.',
    rows: number('addresses'),
  },
  emptyMs: {
    name: 'Nobody listed',
    sentence: 'How long the EndpointSlice listed nobody, or was gone, while a master was well.',
    rows: [{ name: 'empty for', text: seconds, amiss: (ms) => ms > 0 }],
  },
  deadListedMs: {
    name: 'Dead and listed',
    sentence: 'How long the EndpointSlice listed at least one address where no client was served.',
    rows: [{ name: 'dead listed for', text: seconds }],
  },
  fewestListed: {
    name: 'Fewest listed',
    sentence: 'The fewest addresses that were in the EndpointSlice at once, but for what somebody spoiled.',
    rows: [{ name: 'addresses', text: count, amiss: (addresses) => addresses === 0 }],
  },
  connections: {
    name: 'Connections of clients',
    sentence: 'What clients met that pick an address from the EndpointSlice as kube-proxy does.',
    rows: connectionRows(),
  },
  writes: {
    name: 'Writes',
    sentence: 'Of the masters to the API server, leases in the API included, Events left out.',
    rows: [
      { name: 'in all', text: ({ total }) => count(total) },
      { name: 'most of one master in 10 s', text: ({ mostInTenSeconds }) => count(mostInTenSeconds) },
    ],
  },
}

function connectionRows(): readonly Row<Figures['connections']>[] {
  const rows: { readonly [Name in keyof Figures['connections']]: Row<Figures['connections']> } = {
    total: { name: 'in all', text: ({ total }) => count(total) },
    served: { name: 'served', text: ({ served }) => count(served) },
    refused: { name: 'refused', text: ({ refused }) => count(refused) },
    blackHoled: { name: 'black-holed', text: ({ blackHoled }) => count(blackHoled) },
    nobody: { name: 'no address known', text: ({ nobody }) => count(nobody), amiss: ({ nobody }) => nobody > 0 },
    deadShare: { name: 'share not served', text: ({ deadShare }) => share(deadShare) },
    notServedAfterStop: {
      name: 'not served after a stop',
      text: ({ notServedAfterStop }) => count(notServedAfterStop),
      amiss: ({ notServedAfterStop }) => notServedAfterStop > 0,
    },
  }
  return Object.values(rows)
}

/** All figures, a column for each variant. */
export function figuresTable(variants: readonly VariantReport[]): Html {
  const names = Object.keys(sections) as (keyof Figures)[]
  return table({
    label: 'All figures',
    caption: html`All figures <span class="aside">over all runs of each; what a fleet that does well would not have is in bold</span>`,
    columns: columnsOf('figure', variants),
    groups: names.map((name) => ({
      name: html`${sections[name].name} <span class="aside">${sections[name].sentence}</span>`,
      rows: rowsOf(name, variants),
    })),
  })
}

function rowsOf<Name extends keyof Figures>(name: Name, variants: readonly VariantReport[]): Group['rows'] {
  const { rows }: Section<Figures[Name]> = sections[name]
  return rows.map((row) => [
    row.name,
    ...variants.map(({ figures }) => ({
      text: row.text(figures[name]),
      broken: row.amiss?.(figures[name]) ?? false,
    })),
  ])
}

/** The figures that are asked for first, a column for each variant. */
export function glance(variants: readonly VariantReport[]): Html {
  const row = (name: string, cell: (variant: VariantReport) => Part | Cell) => [name, ...variants.map(cell)]
  const many = (number: number, broken: boolean): Cell => ({ text: count(number), broken })
  return table({
    label: 'At a glance',
    caption: 'At a glance',
    columns: columnsOf('reconciler', variants),
    groups: [
      {
        rows: [
          row('verdict', ({ held }) =>
            held ? html`<span class="held">held</span>` : { text: 'did not hold', broken: true },
          ),
          row('dead one removed: median', ({ figures }) => seconds(figures.timeToRemove.p50Ms)),
          row('dead one removed: at most', ({ figures }) => seconds(figures.timeToRemove.maxMs)),
          row('dead one listed for, in all', ({ figures }) => seconds(figures.deadListedMs)),
          row('dead kept too long', ({ figures: { keptDead } }) => many(keptDead, keptDead > 0)),
          row('connections not served', ({ figures }) => share(figures.connections.deadShare)),
          row('flaps', ({ figures: { flaps } }) => many(flaps, flaps > 0)),
          row('fewest listed', ({ figures: { fewestListed } }) => many(fewestListed, fewestListed === 0)),
        ],
      },
    ],
  })
}

function columnsOf(first: string, variants: readonly VariantReport[]): readonly Column[] {
  return [{ name: first }, ...variants.map(({ name }) => ({ name, numbers: true }))]
}
