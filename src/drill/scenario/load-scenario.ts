import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { didYouMean, InvalidInputError, unreadableReason } from '../../documents/validation.ts'
import { readStart } from '../../runtime/system-file.ts'
import { packageRoot } from '../../runtime/system-package.ts'
import { parseScenario } from './parse.ts'
import type { Scenario } from './scenario.ts'

const ending = '.yaml'

/**
 * Loads a built-in scenario by its name, or a file by its path. Rejects with an {@link InvalidInputError} that contains
 * every mistake in the scenario, the reason why the file cannot be read or, for an unknown name, the built-in names.
 */
export async function loadScenario(nameOrFile: string): Promise<Scenario> {
  const directory = builtInDirectory()
  const names = await builtInNames()
  if (names.includes(nameOrFile)) {
    const file = join(directory, `${nameOrFile}${ending}`)
    return parseScenario(await readFile(file, 'utf8'), `${nameOrFile}${ending}`)
  }
  const text = await readStart(nameOrFile).catch((cause: NodeJS.ErrnoException) => {
    const isPath = /[/\\]|\.ya?ml$/.test(nameOrFile) || cause.code !== 'ENOENT'
    const message = isPath ? `cannot read ${nameOrFile}: ${unreadableReason(cause)}` : unknownName(nameOrFile, names)
    throw new InvalidInputError([{ where: 'SCENARIO', message }], { cause })
  })
  return parseScenario(text, nameOrFile)
}

/** Every built-in scenario, sorted by name. */
export async function builtInScenarios(): Promise<readonly Scenario[]> {
  return Promise.all((await builtInNames()).map(loadScenario))
}

async function builtInNames(): Promise<readonly string[]> {
  const files = await readdir(builtInDirectory())
  return files
    .filter((file) => file.endsWith(ending))
    .map((file) => file.slice(0, -ending.length))
    .sort()
}

function builtInDirectory(): string {
  return join(packageRoot(), 'config', 'drills')
}

function unknownName(name: string, names: readonly string[]): string {
  const meant = didYouMean(name, names)
  const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`
  return `there is no built-in scenario ${JSON.stringify(name)}${hint}; there are ${names.join(', ')}; or give the path of a YAML file`
}
