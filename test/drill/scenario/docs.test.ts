import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { commands } from '../../../src/commands/declarations.ts'
import { readDrillRequest } from '../../../src/commands/drill-request.ts'
import { flagOf } from '../../../src/documents/option.ts'
import { figureRows } from '../../../src/drill/report/text.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { damages } from '../../../src/drill/scenario/scenario.ts'

const docs = join(import.meta.dirname, '../../../docs')
const text = readFileSync(join(docs, 'drills.md'), 'utf8')
const blocks = (language: string): readonly string[] =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, 'gm'))].map((match) => match[1] ?? '')

test('docs/drills.md documents every figure', () => {
  const names = figureRows.map(({ name }) => name.trim().replace(/ \((?:s|%)\)$/, ''))
  const section = text.split('\n## ').find((part) => part.startsWith('Figures\n')) ?? ''
  const [, , ...rows] = [...section.matchAll(/^\| ([^|]+) \| [^|]+ \|$/gm)].map((match) => match[1])
  assert.deepEqual(rows.toSorted(), [...new Set(names)].sort())
})

test('docs/drills.md names every damage', () => {
  for (const damage of Object.keys(damages)) assert.ok(text.includes(`\`${damage}\``), damage)
})

test('docs/drills.md names every flag', () => {
  const declaration = commands.find(({ path }) => path[0] === 'drill')
  for (const { options } of declaration?.groups ?? []) {
    for (const key of Object.keys(options)) {
      assert.ok(text.includes(`\`--${flagOf(key)}`), `--${flagOf(key)}`)
    }
  }
})

test('the scenario in docs/drills.md is valid, and its command lines are accepted', () => {
  for (const scenario of blocks('yaml')) assert.doesNotThrow(() => parseScenario(scenario, 'docs/drills.md'))
  const lines = blocks('sh')
    .flatMap((block) => block.replaceAll('\\\n', ' ').split('\n'))
    .filter((line) => line !== '' && !line.startsWith('#'))
  assert.ok(lines.length >= 5)
  for (const line of lines) {
    const [program, command, scenario = '', ...rest] = line.split(/\s+/)
    assert.deepEqual([program, command], ['apiserver-bootstrap', 'drill'], line)
    const flags = Object.fromEntries(
      rest
        .join(' ')
        .split(/ ?--/)
        .filter((flag) => flag !== '')
        .map((flag) => {
          const [name = '', value = 'true'] = flag.split(' ')
          return [name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]
        }),
    )
    assert.doesNotThrow(() => readDrillRequest(flags, scenario), line)
  }
})

test('every local file that docs/drills.md links to exists', () => {
  for (const [, target = ''] of text.matchAll(/\]\(([^)#:]+)\)/g)) assert.ok(existsSync(join(docs, target)), target)
})
