import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse, stringify } from 'yaml'
import * as z from 'zod'
import { builtInScenarios, loadScenario } from '../../../src/drill/scenario/load-scenario.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { scenarioSchema } from '../../../src/drill/scenario/render.ts'
import { tempDir } from '../../support/temp-dir.ts'

const directory = join(import.meta.dirname, '../../../config/drills')
const files = readdirSync(directory).sort()
const textOf = (file: string): string => readFileSync(join(directory, file), 'utf8')
const schema = z.fromJSONSchema(scenarioSchema() as Parameters<typeof z.fromJSONSchema>[0])

test('the folder of built-in scenarios contains exactly these seventeen', () => {
  const names = [
    'clock-skew',
    'crash',
    'damage',
    'datastore-outage',
    'freeze',
    'full-outage',
    'graceful',
    'ip-reuse',
    'last-master',
    'mixed-fleet',
    'own-etcd-dead',
    'partition',
    'rolling-restart',
    'shared-vip',
    'sidecar-restart',
    'unauthorized',
    'upgrade',
  ]
  assert.deepEqual(
    files,
    names.map((name) => `${name}.yaml`),
  )
})

for (const file of files) {
  test(`${file} is valid for the parser and the schema, and is named like its scenario`, () => {
    const text = textOf(file)
    assert.equal(`${parseScenario(text, file).name}.yaml`, file)
    assert.deepEqual(schema.safeParse(parse(text)).error?.issues, undefined)
    assert.match(text, /^# yaml-language-server: \$schema=\.\.\/drill\.schema\.json\n# [A-Z]/)
    for (const line of text.split('\n')) assert.ok(line.length <= 140, line)
  })

  test(`${file} sets no key to its default value`, () => {
    const value: unknown = parse(textOf(file))
    const scenario = parseScenario(textOf(file), file)
    for (const path of pathsIn(value)) {
      let read: unknown
      try {
        read = parseScenario(stringify(without(value, path)), file)
      } catch {
        continue
      }
      assert.notDeepEqual(read, scenario, path.join('.'))
    }
  })
}

test('the committed JSON schema equals the generated one', () => {
  const committed = readFileSync(join(directory, '../drill.schema.json'), 'utf8')
  assert.deepEqual(JSON.parse(committed), scenarioSchema(), 'npm run generate')
})

test('the schema rejects misspelled keys, wrong types and values out of range that the parser rejects', () => {
  const wrong = [
    (text: string) => text.replace('masters: 5', 'masters: 0'),
    (text: string) => text.replace('masters: 5', 'master: 5'),
    (text: string) => text.replace('action: kill', 'action: kil'),
    (text: string) => text.replace('for: 30s', 'form: 30s'),
    (text: string) => text.replace('masters: [master-2]', 'masters: master-2'),
    (text: string) => text.replace('    masters: [master-2]\n', ''),
    (text: string) => text.replace('kind: Drill', 'kind: Configuration'),
  ]
  for (const spoil of wrong) {
    const text = spoil(textOf('crash.yaml'))
    assert.throws(() => parseScenario(text, 'crash.yaml'), { code: 'InvalidInput' })
    assert.equal(schema.safeParse(parse(text)).success, false, text)
  }
})

test('builtInScenarios returns every built-in file; loadScenario loads one by its name, or another file by its path', async (t) => {
  assert.deepEqual(
    (await builtInScenarios()).map(({ name }) => `${name}.yaml`),
    files,
  )
  for (const file of files) {
    assert.deepEqual(await loadScenario(file.replace('.yaml', '')), parseScenario(textOf(file), file))
  }
  const file = join(await tempDir(t), 'mine.yaml')
  await writeFile(file, textOf('crash.yaml').replace('name: crash', 'name: mine'))
  assert.equal((await loadScenario(file)).name, 'mine')
})

const notThere: readonly (readonly [name: string, message: RegExp])[] = [
  [
    'crsh',
    /^SCENARIO: there is no built-in scenario "crsh" \(did you mean crash\?\); there are clock-skew, crash, .*, upgrade; or/,
  ],
  ['constructor', /^SCENARIO: there is no built-in scenario "constructor"; there are /],
  ['./none.yaml', /^SCENARIO: cannot read \.\/none\.yaml: no such file$/],
  ['config', /^SCENARIO: cannot read config: it is a directory$/],
  ['/dev/zero', /^\/dev\/zero: is larger than 256 KiB$/],
]
for (const [name, message] of notThere) {
  test(`${name} is refused as a scenario, with a helpful error`, async () => {
    await assert.rejects(loadScenario(name), { code: 'InvalidInput', message })
  })
}

/** The paths of all keys, however deep. Items of lists have no path of their own. */
function pathsIn(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [
    ...(Array.isArray(value) ? [] : [[...path, key]]),
    ...pathsIn(inner, [...path, key]),
  ])
}

function without(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined || typeof value !== 'object' || value === null) return value
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>
  if (rest.length > 0) copy[key] = without(copy[key], rest)
  else delete copy[key]
  return copy
}
