import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { TableCase, Tables } from './tables.ts'

const here = (path: string): URL => new URL(path, import.meta.url)
// A formatter may align the table.
const readme = readFileSync(here('README.md'), 'utf8').replaceAll(/ +/g, ' ')

for (const file of readdirSync(here('data')).sort()) {
  const data = JSON.parse(readFileSync(here(`data/${file}`), 'utf8')) as Tables<string, TableCase>

  test(`the README states the source of ${file} and the number of its cases`, () => {
    const counts = Object.entries(data.tables).map(([table, cases]) => `${table} (${cases.length})`)
    const source = data.file.replace('pkg/controlplane/', '')
    assert.ok(readme.includes(`| \`${file}\` | \`${source}\` | ${counts.join(', ')} |`))
    assert.ok(readme.includes(`\`${data.module}\` ${data.version}`))
  })

  test(`each case of ${file} has a unique name in its table`, () => {
    for (const cases of Object.values(data.tables))
      assert.equal(new Set(cases.map((one) => one.name)).size, cases.length)
  })
}
