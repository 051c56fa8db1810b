import { chmod, glob, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RolldownOutput } from 'rolldown'
import { bundleCommandLine } from './bundle.ts'
import { output, root, runSteps } from './command.ts'
import { checkNode } from './node-binary.ts'

// usage: node scripts/build.ts
// Builds dist/: the bundled command line with its third-party notices, and the library with its types. The same sources
// and node_modules give the same bytes.

const dist = join(root, 'dist')

/** Builds into a directory that exists and is empty. */
async function build(directory: string): Promise<void> {
  const bundle = await bundleCommandLine(directory)
  await writeFile(join(directory, 'THIRD-PARTY-NOTICES.txt'), await noticesFor(bundle))
  await output('tsc', ['-p', 'tsconfig.build.json', '--outDir', join(directory, 'lib')])
}

/**
 * The licence texts of the packages whose code is in the bundle, and of the protocol definitions. Throws if a package
 * has no licence text.
 */
async function noticesFor(bundle: RolldownOutput): Promise<string> {
  const folders = new Set<string>()
  for (const chunk of bundle.output) {
    if (chunk.type !== 'chunk') continue
    for (const [id, module] of Object.entries(chunk.modules)) {
      const folder = /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(id)?.[0]
      if (folder !== undefined && module.renderedLength > 0) folders.add(folder)
    }
  }
  const notices = await Promise.all([...[...folders].map(noticeOf), noticeOfDefinitions()])
  return ['dist/cli.js and dist/chunks/ contain code of the packages below.\n', ...notices.sort()].join(
    `\n${'-'.repeat(80)}\n\n`,
  )
}

/** The notice for the protocol definitions. Always included, because dist/lib has code that is generated from them. */
async function noticeOfDefinitions(): Promise<string> {
  const text = await readFile(join(root, 'src/protobuf/proto/LICENSE'), 'utf8')
  const whose = 'Copyright The Kubernetes Authors; Copyright The etcd Authors'
  return `Protocol definitions of Kubernetes and etcd, and code generated from them (Apache-2.0)\n\n${whose}\n\n${text.trim()}\n`
}

async function noticeOf(folder: string): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<
    string,
    unknown
  >
  const files = await Array.fromAsync(
    glob('{LICEN[CS]E,License,license,licence,COPYING,NOTICE}{,.*,-*}', { cwd: folder }),
  )
  const texts = await Promise.all(files.sort().map((file) => readFile(join(folder, file), 'utf8')))
  if (texts.length === 0 && typeof license === 'string') texts.push(...(await unpackedTexts(folder, license)))
  if (texts.length === 0 || typeof license !== 'string')
    throw new Error(`${name} ${version} (${folder}) has no licence text`)
  return [
    `${name} ${version} (${license})\n`,
    ...texts.map((text) => `${text.replaceAll('\r\n', '\n').trim()}\n`),
  ].join('\n')
}

/**
 * The texts of the licences that a package names but does not contain as files. The text of Apache-2.0 is that of our
 * own LICENSE. Other texts are in the first comments of the package's modules. Empty if a text is missing.
 */
async function unpackedTexts(folder: string, expression: string): Promise<readonly string[]> {
  const licences = expression.match(/[\w.-]+/g)?.filter((word) => word !== 'AND' && word !== 'OR') ?? []
  const texts = new Set<string>()
  for (const licence of licences) {
    const found = licence === 'Apache-2.0' ? [await readFile(join(root, 'LICENSE'), 'utf8')] : await headTexts(folder)
    if (found.length === 0) return []
    for (const text of found) texts.add(text)
  }
  return [...texts]
}

/** Licence texts in the first comments of a package's modules. */
async function headTexts(folder: string): Promise<readonly string[]> {
  const modules = await Array.fromAsync(glob('**/*.js', { cwd: folder }))
  const heads = await Promise.all(
    modules
      .sort()
      .map(async (module) => /^(?:\/\/.*\n)+/.exec(await readFile(join(folder, module), 'utf8'))?.[0] ?? ''),
  )
  return heads.filter((head) => head.includes('Redistribution and use')).map((head) => head.replace(/^\/\/ ?/gm, ''))
}

/** Builds into a new directory, which then replaces dist/. */
async function replaceDist(): Promise<void> {
  const next = await mkdtemp(`${dist}.`)
  try {
    await build(next)
    await chmod(next, 0o755)
    await rm(dist, { recursive: true, force: true })
    await rename(next, dist)
  } finally {
    await rm(next, { recursive: true, force: true })
  }
}

/** Builds again. Throws if a file differs from that in dist/, or is in only one of the two builds. */
export async function verifyReproducible(): Promise<void> {
  const again = await mkdtemp(`${dist}.`)
  try {
    await build(again)
    const files = await filesIn(again)
    const differing: string[] = []
    for (const file of new Set([...files, ...(await filesIn(dist))])) {
      const contents = await Promise.all(
        [dist, again].map((directory) => readFile(join(directory, file), 'hex').catch(() => file)),
      )
      if (contents[0] !== contents[1]) differing.push(file)
    }
    if (differing.length > 0) throw new Error(`a second build differs in ${differing.join(', ')}`)
  } finally {
    await rm(again, { recursive: true, force: true })
  }
}

async function filesIn(directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(glob('**', { cwd: directory, withFileTypes: true }))
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
}

if (import.meta.main) {
  const ok = await runSteps({ Node: () => checkNode(), build: replaceDist })
  if (!ok) process.exit(1)
  for (const file of (await filesIn(dist)).filter((file) => !file.startsWith('lib')).sort()) {
    console.log(`  ${((await stat(join(dist, file))).size / 1024).toFixed(0).padStart(6)} KiB  dist/${file}`)
  }
}
