import { defaultTextOf, flagOf, inputKindOf, type Option, type OptionGroup } from '../documents/option.ts'
import { apiVersion, configFileOption, kind, optionGroups } from './configuration.ts'

/** The reference page of every setting, as Markdown. */
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
    ...groups.flatMap((group) => ['', `## ${group.title}`, '', ...tableOf(group)]),
  ].join('\n')}\n`
}

function tableOf(group: OptionGroup): readonly string[] {
  const rows = Object.entries(group.options).map(
    ([key, option]) =>
      `| \`--${flagOf(key)}${option.metavar === undefined ? '' : ` ${option.metavar}`}\` | \`${key}\` | ${defaultCell(option)} | ${cell(option.description)} |`,
  )
  return ['| flag | key | default | meaning |', '| --- | --- | --- | --- |', ...rows]
}

function defaultCell(option: Option): string {
  const text = defaultTextOf(option)
  if (text === undefined) return inputKindOf(option.schema) === 'boolean' ? 'off' : '–'
  return option.default === undefined ? cell(text) : `\`${text}\``
}

/** Text that cannot end its cell. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
