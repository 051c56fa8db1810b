import * as z from 'zod/mini'
import { defaultTextOf } from '../src/documents/option.ts'
import { builtInScenarios } from '../src/drill/scenario/load-scenario.ts'
import {
  boundsKeys,
  clientsKeys,
  drillKeys,
  fleetKeys,
  type Key,
  type Keys,
  masterKeys,
  settingsKeys,
} from '../src/drill/scenario/schema.ts'
import { actions, stepKeys } from '../src/drill/scenario/step-schema.ts'
import { invariants } from '../src/verify/invariants.ts'

/** The text of docs/drills.md with its tables as the keys, the invariants and the built-in scenarios make them. */
export async function withDrillTables(text: string): Promise<string> {
  const known = await tables()
  const written = new Set<string>()
  const result = text.replaceAll(/^<!-- generated: (.*) -->\n(?:\|.*\n)*/gm, (_, name: string) => {
    if (known[name] === undefined) throw new Error(`docs/drills.md has a mark for an unknown table: ${name}`)
    written.add(name)
    return `<!-- generated: ${name} -->\n${known[name]}`
  })
  const missing = Object.keys(known).filter((name) => !written.has(name))
  if (missing.length > 0) throw new Error(`docs/drills.md has no line <!-- generated: ${missing.join(', ')} -->`)
  return result
}

async function tables(): Promise<Readonly<Record<string, string>>> {
  const scenarios = await builtInScenarios()
  return {
    'built-in scenarios': table(
      ['name', 'what is drilled'],
      scenarios.map(({ name, description }) => [`\`${name}\``, description]),
    ),
    'the file': keysTable(drillKeys),
    fleet: keysTable(fleetKeys),
    masters: keysTable(masterKeys),
    settings: keysTable(settingsKeys),
    clients: keysTable(clientsKeys),
    bounds: keysTable(boundsKeys),
    actions: actionsTable(),
    'keys of steps': stepKeysTable(),
    invariants: table(
      ['invariant', 'sentence'],
      Object.entries(invariants).map(([name, { sentence }]) => [`\`${name}\``, sentence]),
    ),
  }
}

function keysTable(keys: Keys): string {
  return table(
    ['key', 'form', 'default', 'meaning'],
    Object.entries(keys).map(([name, key]) => [`\`${name}\``, formOf(key), defaultOf(key), key.description]),
  )
}

function actionsTable(): string {
  const rows = Object.entries(actions).map(([name, { description, keys }]) => [
    `\`${name}\``,
    Object.entries(keys)
      .map(([key, { required }]) => (required ? `**\`${key}\`**` : `\`${key}\``))
      .join(', '),
    description,
  ])
  return table(['action', 'keys', 'what happens'], rows)
}

/** A key that has the same meaning for several actions has one row. */
function stepKeysTable(): string {
  const rows = new Map<string, { readonly cells: readonly string[]; readonly of: string[] }>()
  const add = (name: string, key: Key, of: string): void => {
    const cells = [`\`${name}\``, formOf(key), defaultOf(key), key.description]
    const row = rows.get(cells.join()) ?? { cells, of: [] }
    rows.set(cells.join(), row)
    row.of.push(of)
  }
  for (const [name, key] of Object.entries(stepKeys)) add(name, key, 'all')
  for (const [action, { keys }] of Object.entries(actions)) {
    for (const [name, key] of Object.entries(keys)) add(name, key, `\`${action}\``)
  }
  const listed = [...rows.values()].map(({ cells: [name = '', ...cells], of }) => [name, of.join(', '), ...cells])
  // Keys with the same name stand together, at the place of the first one.
  const placeOf = ([name]: readonly string[]): number => listed.findIndex((row) => row[0] === name)
  return table(
    ['key', 'of', 'form', 'default', 'meaning'],
    [...listed].sort((a, b) => placeOf(a) - placeOf(b)),
  )
}

function formOf({ schema, metavar = '' }: Key): string {
  const { enum: choices, const: only } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  if (choices !== undefined && choices.length <= 4) return choices.map((choice) => `\`${choice}\``).join(', ')
  return only === undefined ? `\`${metavar.replaceAll('|', '` or `')}\`` : `\`${only}\``
}

function defaultOf(key: Key): string {
  if (key.required) return 'required'
  const text = key.default === false ? 'false' : defaultTextOf(key)
  return text === undefined ? '' : key.default === undefined ? text : `\`${text}\``
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('')
}
