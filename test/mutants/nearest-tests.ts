import { glob, readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { root } from '../../scripts/command.ts'

/** Each of these costs more than a file of unit tests may. */
const slow =
  /^test\/(?:real|long|bench|floor|simulation|model|examples|mutants)\/|random-schedules|golden|drill\/(?:mutants|built-in)/

/** Which test files import a source file, and through how many others. */
export class NearestTests {
  /** The importers of a file. */
  readonly #importers = new Map<string, Set<string>>()
  readonly #files = new Set<string>()

  static async read(): Promise<NearestTests> {
    const nearest = new NearestTests()
    for await (const file of glob('{src,test}/**/*.ts', { cwd: root, exclude: ['**/node_modules'] })) {
      nearest.#files.add(file)
      const text = await readFile(join(root, file), 'utf8')
      for (const [, path = ''] of text.matchAll(/^(?:import|export|\} from)\b.*?'(\.{1,2}\/[^']+\.ts)'$/gm)) {
        const imported = relative(root, resolve(root, dirname(file), path))
        const importers = nearest.#importers.get(imported) ?? new Set()
        nearest.#importers.set(imported, importers.add(file))
      }
    }
    return nearest
  }

  /**
   * At most `count` test files, below test/, for a file below src/: first those that have its name, then those that
   * import it most directly.
   */
  of(source: string, count: number): readonly string[] {
    const distances = new Map([[`src/${source}`, 0]])
    for (const [file, distance] of distances) {
      for (const importer of this.#importers.get(file) ?? []) {
        if (!distances.has(importer)) distances.set(importer, distance + 1)
      }
    }
    const mirrored = `test/${source.replace(/\.ts$/, '')}`
    // A test that starts a process imports nothing.
    if (this.#files.has(`${mirrored}.test.ts`)) distances.set(`${mirrored}.test.ts`, 0)
    const folder = `${dirname(mirrored)}/`
    const rank = ([file, distance]: readonly [string, number]): number => {
      if (file === `${mirrored}.test.ts`) return -2
      if (file.startsWith(`${mirrored}-`) || file.startsWith(`${mirrored}.`)) return -1
      return distance + (file.startsWith(folder) ? 0 : 0.5)
    }
    return [...distances]
      .filter(([file]) => file.endsWith('.test.ts') && !slow.test(file))
      .map((found) => ({ file: found[0], rank: rank(found) }))
      .sort((a, b) => a.rank - b.rank || (a.file < b.file ? -1 : 1))
      .slice(0, count)
      .map(({ file }) => relative('test', file))
  }
}
