import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bundleCommandLine } from '../../scripts/bundle.ts'
import { makeTempDir } from '../support/temp-dir.ts'

const { path, remove } = await makeTempDir()
const { output } = await bundleCommandLine(path).finally(remove)

test('each chunk of the bundle has only characters that V8 stores in one byte', () => {
  const wide = output.flatMap((one) => (one.type === 'chunk' && /[^\0-\xff]/.test(one.code) ? [one.fileName] : []))
  assert.deepEqual(wide, [])
})

test('the bundle contains no package that only an unused part of another package needs', () => {
  const modules = output.flatMap((one) => (one.type === 'chunk' ? one.moduleIds : []))
  const bundled = new Set(modules.map((id) => /.*[\\/]node_modules[\\/]((@[^\\/]+[\\/])?[^\\/]+)/.exec(id)?.[1]))
  assert(bundled.has('undici'))
  for (const name of ['js-yaml', 'socks', 'ip-address', 'hpagent', '@opentelemetry/api'])
    assert(!bundled.has(name), name)
})

test('no module of the bundle imports node:http, which would load the undici of Node at each start', () => {
  const chunks = output.filter((one) => one.type === 'chunk')
  assert(chunks.some(({ moduleIds }) => moduleIds.some((id) => id.endsWith('node-http.mjs'))))
  const importing = chunks.filter(
    ({ imports, code }) => imports.includes('node:http') || /from ?["'](?:node:)?http["']/.test(code),
  )
  assert.deepEqual(
    importing.map(({ fileName }) => fileName),
    [],
  )
})
