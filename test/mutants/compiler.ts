import { join } from 'node:path'
import { API } from 'typescript/unstable/sync'
import { root } from '../../scripts/command.ts'
import { type Mistake, mistakesIn } from './mistakes.ts'

/** The codes of errors that a mistake may leave behind, and that do not count: unused names, unreachable code. */
const LEFT_BEHIND: ReadonlySet<number> = new Set([6133, 6192, 6196, 6198, 7027])

/** What the compiler knows of the sources, and would report of a changed one. File names are relative to src/. */
export class Compiler {
  readonly #shown = new Map<string, string>()
  readonly #api = new API({ cwd: root, fs: { readFile: (path) => this.#shown.get(path) } })
  readonly #config = join(root, 'tsconfig.json')
  #program = this.#read({ openProjects: [this.#config] })

  mistakesIn(file: string): Mistake[] {
    this.#show(new Map())
    const source = this.#program.getSourceFile(pathOf(file))
    return source === undefined ? [] : [...mistakesIn(source)]
  }

  /** The compiler's errors in changed files, in its own words, each after the name of its file. */
  faultsIn(changed: ReadonlyMap<string, string>, { mayLeaveUnused = false } = {}): readonly string[] {
    this.#show(new Map([...changed].map(([file, text]) => [pathOf(file), text])))
    return [...changed.keys()].flatMap((file) => {
      const path = pathOf(file)
      return [...this.#program.getSyntacticDiagnostics(path), ...this.#program.getSemanticDiagnostics(path)]
        .filter(({ code }) => !mayLeaveUnused || !LEFT_BEHIND.has(code))
        .map(({ text }) => `${file}: ${text}`)
    })
  }

  close(): void {
    this.#api.close()
  }

  /** Presents these files, and no others, to the compiler as changed. */
  #show(files: ReadonlyMap<string, string>): void {
    const changed = [...this.#shown.keys(), ...files.keys()]
    if (changed.length === 0) return
    this.#shown.clear()
    for (const [path, text] of files) this.#shown.set(path, text)
    this.#program = this.#read({ fileChanges: { changed } })
  }

  #read(changes: Parameters<API['updateSnapshot']>[0]) {
    const project = this.#api.updateSnapshot(changes).getProject(this.#config)
    if (project === undefined) throw new Error(`${this.#config} was not read`)
    return project.program
  }
}

function pathOf(file: string): string {
  return join(root, 'src', file)
}
