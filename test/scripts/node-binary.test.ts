import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../scripts/command.ts'
import { checkNode } from '../../scripts/node-binary.ts'
import { tempDir } from '../support/temp-dir.ts'

const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).devDependencies.node

test('a Node of another version or with another checksum is refused', async (t) => {
  const file = join(await tempDir(t), 'node')
  await writeFile(file, 'something else')
  await assert.rejects(checkNode({ file, version: '24.0.0', platform: 'linux-x64' }), /this is Node 24\.0\.0 /)
  await assert.rejects(
    checkNode({ file, version, platform: 'linux-x64' }),
    /is not the Node that is pinned: its SHA-256/,
  )
  await checkNode({ file, version, platform: 'of-nobody' })
})
