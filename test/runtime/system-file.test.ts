import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readText } from '../../src/runtime/system-file.ts'
import { tempDir } from '../support/temp-dir.ts'

test('readText reads files up to 1 MiB and rejects larger or missing ones', async (t) => {
  const file = join(await tempDir(t), 'file')
  const most = 'x'.repeat(1024 * 1024)
  await writeFile(file, most)
  assert.equal(await readText(file), most)
  await writeFile(file, `${most}x`)
  await assert.rejects(readText(file), { code: 'EFBIG', message: 'it has more than 1 MiB' })
  await assert.rejects(readText(`${file}-missing`), { code: 'ENOENT' })
})
