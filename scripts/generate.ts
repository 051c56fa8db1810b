import { access, glob, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { output, root } from './command.ts'

// usage: node scripts/generate.ts
// Writes every generated file that is committed: the protobuf code, and the files of scripts/generate-docs.ts.

const protobufCode = 'src/protobuf/gen'
const documentation = join(root, 'scripts/generate-docs.ts')

/** Writes the generated files below `directory`, under the paths that they have in the repository. */
export async function generate(directory: string): Promise<void> {
  await rm(join(directory, protobufCode), { recursive: true, force: true })
  await output('buf', ['generate', '--template', 'src/protobuf/buf.gen.yaml', '--output', directory])
  if (await exists(documentation)) await output(process.execPath, [documentation, directory])
}

/** The paths of the generated files that `generate` would change, add or remove. */
export async function outdatedFiles(): Promise<string[]> {
  const fresh = await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-generated-'))
  try {
    await generate(fresh)
    const files = new Set(await filesIn(fresh, '**'))
    for (const file of await filesIn(root, `${protobufCode}/**`)) files.add(file)
    const outdated: string[] = []
    for (const file of files)
      if ((await textOf(join(root, file))) !== (await textOf(join(fresh, file)))) outdated.push(file)
    return outdated.sort()
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}

async function filesIn(directory: string, pattern: string): Promise<string[]> {
  const entries = await Array.fromAsync(glob(pattern, { cwd: directory, withFileTypes: true }))
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
}

async function textOf(path: string): Promise<string | undefined> {
  return (await exists(path)) ? readFile(path, 'utf8') : undefined
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

if (import.meta.main) await generate(root)
