import { spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { output, root } from '../../scripts/command.ts'
import { removeAtEndOfProcess } from '../support/temp-dir.ts'
import { mutated, type TestedMutant } from './mutant.ts'

/** The result of the test files for one mutant. */
export interface Verdict {
  readonly type: 'noticed' | 'not noticed' | 'out of time'
  /** The tests that failed, by their names. */
  readonly failed: readonly string[]
  /** All that the tests printed. */
  readonly output: string
}

/** A copy of the repository in a temporary directory, in which one mistake at a time is put and removed again. */
export class SourceCopy {
  readonly directory: string
  readonly #stop: AbortSignal
  readonly #callOff: () => void

  private constructor(directory: string, stop: AbortSignal, callOff: () => void) {
    this.directory = directory
    this.#stop = stop
    this.#callOff = callOff
  }

  /**
   * Copies every file that Git tracks or would add, in its present state. `node_modules` is a link. When `stop` is
   * aborted, the running tests end. A caller that passes `stop` then removes the copy; otherwise the copy is removed
   * when this process is interrupted.
   */
  static async make(stop?: AbortSignal): Promise<SourceCopy> {
    const directory = await mkdtemp(join(tmpdir(), 'mutants-'))
    const callOff = stop === undefined ? removeAtEndOfProcess(directory) : () => {}
    const listed = await output('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'])
    for (const file of listed.split('\0').filter((name) => name !== '' && name !== 'node_modules')) {
      await mkdir(dirname(join(directory, file)), { recursive: true })
      // Git also lists a removed file whose removal is not committed yet.
      await cp(join(root, file), join(directory, file)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
    }
    await symlink(join(root, 'node_modules'), join(directory, 'node_modules'))
    return new SourceCopy(directory, stop ?? new AbortController().signal, callOff)
  }

  /**
   * Runs the mutant's tests on sources that have its mistake, for `limitMs` at most. Throws if the text to replace is
   * not exactly once in its file, or if the replacement is not TypeScript: a test that fails because of that has
   * noticed nothing.
   */
  async try(mutant: TestedMutant, limitMs: number): Promise<Verdict> {
    const path = join(this.directory, 'src', mutant.file)
    const source = await mutated(mutant)
    stripTypeScriptTypes(source)
    await writeFile(path, source)
    try {
      return await this.run(mutant.tests, limitMs)
    } finally {
      await cp(join(root, 'src', mutant.file), path)
    }
  }

  /**
   * Runs test files, below test/, on the sources as they are in the copy. Rejects with the reason of `stop` when that
   * is aborted. Also rejects if the run fails although no test or file does: then no test has noticed anything.
   */
  run(tests: readonly string[], limitMs: number): Promise<Verdict> {
    const files = tests.map((file) => join('test', file))
    return new Promise((settle, reject) => {
      this.#stop.throwIfAborted()
      // Its own process group, so that everything that the tests have started ends with them.
      const child = spawn(process.execPath, ['scripts/test.ts', 'unit', ...files], {
        cwd: this.directory,
        // Inside a test file, node:test would run none of these tests.
        env: { ...process.env, NODE_TEST_CONTEXT: undefined },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      })
      let isLate = false
      let printed = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (chunk: string) => {
          printed += chunk
        })
      }
      const end = (): void => endGroup(child.pid)
      const timer = setTimeout(() => {
        isLate = true
        end()
      }, limitMs)
      this.#stop.addEventListener('abort', end)
      child.once('error', reject)
      child.once('close', (code) => {
        clearTimeout(timer)
        this.#stop.removeEventListener('abort', end)
        if (this.#stop.aborted) reject(this.#stop.reason)
        const type = isLate ? 'out of time' : code === 0 ? 'not noticed' : 'noticed'
        const failed = failedTests(printed)
        if (type === 'noticed' && failed.length === 0) reject(new Error(`the run failed, but no test\n${printed}`))
        settle({ type, failed, output: printed })
      })
    })
  }

  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true })
    this.#callOff()
  }
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

/** The names of tests that the reporter marks as failed. */
function failedTests(printed: string): readonly string[] {
  const names = printed.matchAll(/^\s*✖ (.+) \(\d[\d.]*ms\)$/gm)
  return [...new Set([...names].map(([, name = '']) => name))]
}
