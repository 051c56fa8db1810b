import assert from 'node:assert/strict'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SourceCopy } from '../mutants/source-copy.ts'
import type { Cleanup } from './cleanup.ts'
import { spawnChild } from './spawn-child.ts'

export interface Tarball {
  readonly file: string
  readonly integrity: string
  /** Every file in it, from the root of the package. */
  readonly paths: readonly string[]
}

/** Runs a command, which must succeed. Returns what it wrote to standard output. */
export async function run(
  t: Cleanup,
  command: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
): Promise<string> {
  const child = await spawnChild(t, command, args, options)
  const { code } = await child.exited
  assert.equal(code, 0, `${command} ${args.join(' ')}\n${child.stdout()}${child.stderr()}`)
  return child.stdout()
}

/** Packs a fresh clone, in which nothing has been built, into a directory. */
export async function packClone(t: Cleanup, directory: string): Promise<Tarball> {
  const clone = await SourceCopy.make()
  t.after(() => clone.remove())
  return pack(t, ['--pack-destination', directory], clone.directory)
}

/** `npm pack` with these arguments. */
export async function pack(t: Cleanup, args: readonly string[], cwd: string): Promise<Tarball> {
  const [report] = JSON.parse(await run(t, 'npm', ['pack', '--json', ...args], { cwd })) as {
    readonly filename: string
    readonly integrity: string
    readonly files: readonly { readonly path: string }[]
  }[]
  assert.ok(report)
  const { filename, integrity, files } = report
  const destination = args[args.indexOf('--pack-destination') + 1] ?? cwd
  return { file: join(destination, filename), integrity, paths: files.map(({ path }) => path) }
}

/** Installs the tarball for a program in an empty folder, with the dependencies from npm's cache if that has them. */
export async function installPackage(t: Cleanup, { file }: Tarball, cwd: string): Promise<void> {
  await mkdir(cwd, { recursive: true })
  await writeFile(join(cwd, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }')
  await run(t, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', file], { cwd })
}

/** The PATH of a machine that has this Node, npm and the system's own programs. */
export async function pathWithNode(t: Cleanup, directory: string): Promise<string> {
  const bin = join(directory, 'bin')
  await mkdir(bin)
  const npm = (await run(t, 'sh', ['-c', 'command -v npm'], { cwd: directory })).trim()
  await symlink(process.execPath, join(bin, 'node'))
  for (const name of ['npm', 'npx']) await symlink(join(dirname(npm), name), join(bin, name))
  return [bin, '/usr/bin', '/bin'].join(':')
}
