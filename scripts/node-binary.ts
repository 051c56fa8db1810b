import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { root } from './command.ts'

/**
 * The SHA-256 of `bin/node` in the packages `node-PLATFORM-ARCH`, for the version in package.json. npm's lock file
 * cannot contain them, because the install script of the package `node` chooses one of these packages. A new version
 * needs new hashes. For a platform without a hash, only the version is checked.
 */
const hashes: Readonly<Record<string, string>> = {
  'linux-x64': '7fde7b8afa198da66257f42ee2001d874c7355631e6d1579a5fb5ef1f246df4c',
}

/** Rejects with one line if a Node, by default that of this process, is not the pinned version or binary. */
export async function checkNode(
  { file, version, platform }: { readonly file: string; readonly version: string; readonly platform: string } = {
    file: process.execPath,
    version: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  },
): Promise<void> {
  const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  if (version !== devDependencies.node) {
    throw new Error(`this is Node ${version} (${file}), not ${devDependencies.node}: run it through npm, after npm ci`)
  }
  const wanted = hashes[platform]
  if (wanted === undefined) return
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  const found = hash.digest('hex')
  if (found !== wanted) {
    throw new Error(
      `${file} is not the Node that is pinned: its SHA-256 is ${found}, not ${wanted} (scripts/node-binary.ts)`,
    )
  }
}
