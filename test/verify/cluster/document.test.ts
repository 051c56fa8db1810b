import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { expectationHead, expectationOptions } from '../../../src/commands/options.ts'
import { readOptions } from '../../../src/config/resolve.ts'
import { parseYaml } from '../../../src/documents/yaml.ts'
import { checkTexts } from '../../../src/verify/cluster/check-ids.ts'

test('docs/verify.md lists every check with its texts, in order', () => {
  const page = readFileSync('docs/verify.md', 'utf8')
  const [, section = ''] = page.split('## Checks\n')
  const rows = section
    .split('\n## ')[0]
    ?.split('\n')
    .filter((line) => line.startsWith('| `'))
  const wanted = Object.entries(checkTexts).map(([id, { title, why }]) => `| \`${id}\` | ${title} | ${why} |`)
  assert.deepEqual(
    rows?.map((row) => row.replace(/(?<=\|) [^|]+ \|$/, '')),
    wanted,
  )
})

test('the example expectation file in docs/verify.md is valid, and the page names every key', () => {
  const page = readFileSync('docs/verify.md', 'utf8')
  const [, text = '', after = ''] = /```yaml\n(.*?)```(.*?)\n## /s.exec(page) ?? []
  const values = readOptions(parseYaml(text, 'docs/verify.md'), expectationHead, expectationOptions)
  assert.deepEqual(values.skip, ['shared-addresses'])
  assert.deepEqual(
    values.expectAddresses?.map((address) => address.text),
    ['192.0.2.1', '192.0.2.2'],
  )
  for (const key of Object.keys(expectationOptions)) assert.ok(key in values || after.includes(`\`${key}\``), key)
})
