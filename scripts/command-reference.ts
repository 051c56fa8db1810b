import type { CommandDeclaration } from '../src/commands/command-declaration.ts'
import { allOptions, optionGroups } from '../src/config/configuration.ts'
import { flagOf, type OptionGroup } from '../src/documents/option.ts'
import { optionTable } from './configuration-reference.ts'

/** The groups and options that docs/configuration.md describes. */
const settingGroups = new Set<OptionGroup>(Object.values(optionGroups))
const settings = new Set(allOptions.map(([, option]) => option))

/** The reference of the command line, as Markdown. Options of docs/configuration.md are linked, not repeated. */
export function commandReference(commands: readonly CommandDeclaration[]): string {
  const firstUse = new Map<OptionGroup, string>()
  return `${[
    '<!-- Generated from the commands by `npm run generate`. -->',
    '# Command line',
    '',
    '`apiserver-bootstrap COMMAND --help` prints all flags of a command. [configuration.md](configuration.md) describes the flags that a configuration file can also set.',
    ...commands.flatMap((command) => sectionOf(command, firstUse)),
  ].join('\n')}\n`
}

function sectionOf(
  { path, summary, argument, groups, examples }: CommandDeclaration,
  firstUse: Map<OptionGroup, string>,
): readonly string[] {
  const name = path.join(' ')
  const own: string[] = []
  const shared: string[] = []
  for (const group of groups) {
    const { title } = group
    const options = Object.entries(group.options)
    const isAll = settingGroups.has(group)
    if (isAll) shared.push(`[${title}](configuration.md#${anchorOf(title)})`)
    else shared.push(...options.flatMap(([key, option]) => (settings.has(option) ? [`\`--${flagOf(key)}\``] : [])))
    const ownOptions = Object.fromEntries(options.filter(([, option]) => !settings.has(option)))
    if (Object.keys(ownOptions).length === 0) continue
    const first = firstUse.get(group)
    firstUse.set(group, first ?? name)
    if (first !== undefined) own.push('', `${title}: as for [${first}](#${anchorOf(first)}).`)
    else own.push('', `${title}:`, '', ...optionTable({ title, options: ownOptions }, false))
  }
  const hasAll = [...settingGroups].every((group) => groups.includes(group))
  return [
    '',
    `## ${name}`,
    '',
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    ...(argument === undefined ? [] : ['', `\`${argument.name}\`: ${argument.description}.`]),
    '',
    '```sh',
    ...examples,
    '```',
    ...own,
    ...(shared.length === 0 ? [] : ['', `Settings: ${hasAll ? '[all](configuration.md)' : shared.join(', ')}.`]),
  ]
}

/** The anchor that GitHub gives a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}
