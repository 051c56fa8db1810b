import { defaultTextOf, flagOf, inputKindOf, type Option, type OptionGroup } from '../documents/option.ts'
import { apiVersion, configFileOption, kind, optionGroups } from './configuration.ts'

/** The reference page of every setting, as Markdown. */
export function configurationReference(): string {
  const groups: readonly OptionGroup[] = Object.values(optionGroups)
  return `${[
    '<!-- Generated from the options by `npm run generate`. -->',
    '# Configuration',
    '',
    'Every setting is a flag of `apiserver-bootstrap run` and, in camel case, a key of the configuration file; a flag overrides the file, the',
    `file overrides the default. The file is named by \`--config ${configFileOption.metavar}\` and begins with`,
    '',
    '```yaml',
    `apiVersion: ${apiVersion}`,
    `kind: ${kind}`,
    '```',
    '',
    'Unknown keys, duplicate keys and malformed values are refused, each with its file, line and column, before anything is contacted; the exit code',
    'is then 2. Durations are written as in Go (`10s`, `1m30s`) and are at most 24h. Lists are comma-separated in a flag, and a list or comma-separated',
    'text in the file. A switch is turned off by `--flag=false`. Paths are relative to the working directory. `apiserver-bootstrap config check` says whether',
    'a configuration is right, `apiserver-bootstrap config print` shows each effective value and where it comes from;',
    '[configuration.schema.json](../config/configuration.schema.json) tells an editor the same.',
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
