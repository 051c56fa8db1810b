import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { checkTexts } from '../../../src/verify/cluster/check-ids.ts'

test('docs/verify.md has every check with its texts, in their order', () => {
  const page = readFileSync('docs/verify.md', 'utf8')
  const [, section = ''] = page.split('## Checks\n')
  const rows = section
    .split('\n## ')[0]
    ?.split('\n')
    .filter((line) => line.startsWith('| `'))
  const wanted = Object.entries(checkTexts).map(
    ([id, { title, why, repair }]) => `| \`${id}\` | ${title} | ${why} | ${repair} |`,
  )
  assert.deepEqual(rows, wanted)
})
