import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readStart, readText } from '../../src/runtime/system-file.ts'
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

test('readText reads at most 1 MiB from a FIFO, whose size is unknown', async (t) => {
  const fifo = join(await tempDir(t), 'fifo')
  execFileSync('mkfifo', [fifo])
  // Each letter has two bytes, so that one of them may be in two chunks.
  const most = `${'é'.repeat(512 * 1024 - 1)}xy`
  const [, text] = await Promise.all([writeFile(fifo, most), readText(fifo)])
  assert.ok(text === most)
  const [written, read] = await Promise.allSettled([writeFile(fifo, `${most}x${most}`), readText(fifo)])
  assert.equal(read.status === 'rejected' && read.reason.code, 'EFBIG')
  assert.equal(written.status === 'rejected' && written.reason.code, 'EPIPE', 'the rest is not read')
})

test('readStart reads one byte more than the limit of a larger or endless file', async (t) => {
  const file = join(await tempDir(t), 'file')
  await writeFile(file, '12345')
  assert.deepEqual(await Promise.all([readStart(file, 3), readStart(file, 4), readStart(file, 5), readStart(file)]), [
    '1234',
    '12345',
    '12345',
    '12345',
  ])
  assert.equal((await readStart('/dev/zero')).length, 1024 * 1024 + 1)
  await assert.rejects(readStart(`${file}-missing`), { code: 'ENOENT' })
})
