import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { configurationReference, configurationSchema } from '../../scripts/configuration-reference.ts'
import { allOptions } from '../../src/config/configuration.ts'
import { resolveConfiguration } from '../../src/config/resolve.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

function committed(path: string): Promise<string> {
  return readFile(new URL(`../../${path}`, import.meta.url), 'utf8')
}

test('the committed schema equals the one generated from the options', async () => {
  assert.deepEqual(
    JSON.parse(await committed('config/configuration.schema.json')),
    configurationSchema(),
    'npm run generate',
  )
})

test('the committed reference equals the one generated from the options', async () => {
  assert.equal(await committed('docs/configuration.md'), configurationReference(), 'npm run generate')
})

test('the schema contains bounds, choices and defaults, and allows no other key', () => {
  const { properties, additionalProperties } = configurationSchema() as {
    properties: Record<string, Record<string, unknown>>
    additionalProperties: unknown
  }
  assert.equal(additionalProperties, false)
  const { minimum, maximum, default: port } = properties.securePort ?? {}
  assert.deepEqual([minimum, maximum, port], [1, 65_535, 6443])
  assert.deepEqual(properties.onShutdown?.enum, ['withdraw', 'always', 'keep'])
})

test('the default values are valid', () => {
  assert.doesNotThrow(() => resolveConfiguration({ embedded: 'true' }))
})

test('every option has a one-line description in the same style', () => {
  for (const [key, { description, metavar }] of allOptions) {
    assert.match(description, /^(?:[a-z/]|[A-Z]{2}).*[^.\s]$/s, key)
    assert.doesNotMatch(description, /\n/, key)
    assert.match(metavar ?? 'X', /^[A-Z][A-Z:=,[\]-]*$/, key)
  }
})

test('the sample configuration is valid, names every setting, and shows the defaults', async () => {
  const text = await committed('config/sidecar.yaml')
  assert.doesNotThrow(() => resolveConfiguration({}, parseYaml(text, 'config/sidecar.yaml')))
  const uncommented = allOptions.reduce((all, [key]) => all.replace(`\n# ${key}: `, `\n${key}: `), text)
  const shown = parseYaml(uncommented, 'config/sidecar.yaml').value as Record<string, unknown>
  const chosen = ['inCluster', 'embedded', 'serviceClusterIpRange']
  for (const [key, option] of allOptions) {
    assert.ok(key in shown, key)
    if (option.default !== undefined && !chosen.includes(key)) assert.deepEqual(shown[key], option.default, key)
  }
})
