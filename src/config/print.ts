import { flagOf } from '../documents/option.ts'
import { apiVersion, kind } from './configuration.ts'
import type { Setting } from './resolve.ts'

/** The settings as an equivalent configuration file, with the source of each value in a comment. */
export function printYaml(settings: readonly Setting[]): string {
  const lines = settings.map((setting): [text: string, source: string] => {
    const { key, value } = setting
    return [value === undefined ? `# ${key}:` : `${key}: ${yamlFlow(value)}`, describeSource(setting)]
  })
  const width = Math.max(...lines.map(([text]) => text.length))
  return [
    `apiVersion: ${apiVersion}`,
    `kind: ${kind}`,
    ...lines.map(([text, source]) => `${text.padEnd(width)}  # ${source}`),
    '',
  ].join('\n')
}

/** The settings as one JSON object: `{ key: { value, source } }`. A setting without a value has the value null. */
export function printJson(settings: readonly Setting[]): string {
  const entries = settings.map((setting) => [
    setting.key,
    { value: setting.value ?? null, source: describeSource(setting) },
  ])
  return `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`
}

function describeSource({ key, source, option }: Setting): string {
  switch (source.type) {
    case 'flag':
      return `--${flagOf(key)}`
    case 'file':
      return source.position
    case 'default':
      return 'default'
    case 'unset':
      return option.unset === undefined ? 'not set' : `not set: ${option.unset}`
  }
}

/** A value in YAML's flow style. Text that YAML would read as another value is quoted as in JSON. */
function yamlFlow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(yamlFlow).join(', ')}]`
  if (typeof value !== 'string') return JSON.stringify(value)
  return /^[a-z][a-zA-Z0-9._/-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value)
    ? value
    : JSON.stringify(value)
}
