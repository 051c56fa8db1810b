import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The directory of this program's package.json. It is above the sources, and above the built bundle and library. */
export function packageRoot(): string {
  let directory = import.meta.dirname
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory)
    if (parent === directory) throw new Error(`no package.json above ${import.meta.dirname}`)
    directory = parent
  }
  return directory
}

export async function packageVersion(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageRoot(), 'package.json'), 'utf8')) as { version: string }
  return version
}
