import { flagOf } from '../documents/option.ts'
import { apiVersion, kind } from './configuration.ts'
import type { Setting, Source } from './resolve.ts'

/** The settings as an equivalent configuration file, with the source of each value in a comment. Secrets are hidden. */
export function printYaml(settings: readonly Setting[]): string {
  const lines = settings.map((setting): [text: string, source: string] => {
    const value = shownValue(setting)
    const text = value === undefined ? `# ${setting.key}:` : `${setting.key}: ${yamlFlow(value)}`
    return [text, describeSource(setting)]
  })
  const width = Math.max(...lines.map(([text]) => text.length))
  return [
    `apiVersion: ${apiVersion}`,
    `kind: ${kind}`,
    ...lines.map(([text, source]) => `${text.padEnd(width)}  # ${source}`),
    '',
  ].join('\n')
}

/** The same as one JSON object: `{ key: { value, source } }`. */
export function printJson(settings: readonly Setting[]): string {
  const entries = settings.map((setting) => [
    setting.key,
    { value: shownValue(setting) ?? null, source: describeSource(setting) },
  ])
  return `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`
}

function shownValue({ option, value }: Setting): unknown {
  return option.secret && value !== undefined ? '(hidden)' : value
}

function describeSource({ key, source, option }: Setting): string {
  return sourceText(source, key, option.unset)
}

function sourceText(source: Source, key: string, unset: string | undefined): string {
  switch (source.type) {
    case 'flag':
      return `--${flagOf(key)}`
    case 'file':
      return source.position
    case 'default':
      return 'default'
    case 'unset':
      return unset === undefined ? 'not set' : `not set: ${unset}`
  }
}

/** JSON is YAML: quoted where plain text would be read differently. */
function yamlFlow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(yamlFlow).join(', ')}]`
  if (typeof value !== 'string') return JSON.stringify(value)
  return /^[a-z][a-zA-Z0-9._/-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value)
    ? value
    : JSON.stringify(value)
}
