import * as z from 'zod/mini'
import { allOptions, apiVersion, configFileOption, kind, optionGroups } from '../src/config/configuration.ts'
import { defaultTextOf, flagOf, inputKindOf, type Option, type OptionGroup } from '../src/documents/option.ts'

export function configurationReference(): string {
  const groups: readonly OptionGroup[] = Object.values(optionGroups)
  return `${[
    '<!-- Generated from the options by `npm run generate`. -->',
    '# Configuration',
    '',
    'Every setting is a flag of `apiserver-bootstrap run` and, in camel case, a key of the configuration file. A flag overrides the file, the file overrides',
    `the default. \`--config ${configFileOption.metavar}\` names the file. It starts with`,
    '',
    '```yaml',
    `apiVersion: ${apiVersion}`,
    `kind: ${kind}`,
    '```',
    '',
    'Unknown keys, duplicate keys and malformed values are refused with file, line and column before anything is contacted; the exit code is 2. Durations are',
    "Go's (`10s`, `1m30s`), at most 24h. A list is comma-separated in a flag, and a list or comma-separated text in the file. `--flag=false` turns a switch off.",
    'Paths are relative to the working directory. `apiserver-bootstrap config check` checks a configuration, `apiserver-bootstrap config print` shows each effective',
    'value and its source. [configuration.schema.json](../config/configuration.schema.json) is for editors.',
    ...groups.flatMap((group) => ['', `## ${group.title}`, '', ...optionTable(group)]),
  ].join('\n')}\n`
}

/** A table with a row for each option of a group. `withKeys` adds a column of keys in a configuration file. */
export function optionTable(group: OptionGroup, withKeys = true): readonly string[] {
  const columns = ['flag', ...(withKeys ? ['key'] : []), 'default', 'meaning']
  const rows = Object.entries(group.options).map(([key, option]) => [
    `\`--${flagOf(key)}${option.metavar === undefined ? '' : ` ${option.metavar}`}\``,
    ...(withKeys ? [`\`${key}\``] : []),
    defaultCell(option),
    cell(option.description),
  ])
  return [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
}

function defaultCell(option: Option): string {
  const text = defaultTextOf(option)
  if (text === undefined) return inputKindOf(option.schema) === 'boolean' ? 'off' : '–'
  return option.default === undefined ? cell(text) : `\`${text}\``
}

/** Escapes `|`, which would end the table cell. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}

/** The JSON Schema (2020-12) of a configuration file, for editors: keys, forms, bounds, choices, defaults. */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  return documentSchema({ apiVersion, kind }, 'Configuration file of apiserver-bootstrap', allOptions)
}

/** The JSON Schema of a document that may contain these options. */
export function documentSchema(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  description: string,
  options: readonly (readonly [key: string, option: Option])[],
): Readonly<Record<string, unknown>> {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `${kind} (${apiVersion})`,
    description,
    type: 'object',
    properties: {
      apiVersion: { const: apiVersion },
      kind: { const: kind },
      ...Object.fromEntries(options.map(([key, option]) => [key, schemaOf(key, option)])),
    },
    required: ['apiVersion', 'kind'],
    additionalProperties: false,
  }
}

function schemaOf(key: string, option: Option): unknown {
  const { $schema: _, ...form } = z.toJSONSchema(option.schema, { io: 'input', unrepresentable: 'any' })
  const defaultText = option.default === undefined ? defaultTextOf(option) : undefined
  const description = `${option.description} (--${flagOf(key)}${defaultText === undefined ? '' : `; default: ${defaultText}`})`
  const value = inputKindOf(option.schema) === 'list' ? { oneOf: [form, { type: 'string' }] } : form
  return { description, ...value, ...(option.default === undefined ? {} : { default: option.default }) }
}
