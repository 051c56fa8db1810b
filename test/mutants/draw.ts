import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../../scripts/command.ts'
import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { Compiler } from './compiler.ts'
import type { Mistake } from './mistakes.ts'
import type { TestedMutant } from './mutant.ts'
import { NearestTests } from './nearest-tests.ts'

export interface DrawOptions {
  readonly count: number
  readonly seed: string
  /** Only files whose path below src/ begins with this. */
  readonly below: string
  /** Names that are taken. */
  readonly taken: ReadonlySet<string>
}

interface Source {
  readonly file: string
  readonly text: string
  readonly lines: number
  /** What has not been drawn yet. */
  readonly left: Mistake[]
}

/** Files that are generated, that people view, or that exist only to be imported. */
const undecided = /^(?:protobuf\/gen|drill\/report\/page)\/|^(?:index|testing)\.ts$/
const TESTS_OF_ONE = 4

/**
 * Draws mistakes by seed from the files of src/. A longer file gets more of them, and each kind of mistake is equally
 * likely. It draws none twice, and none that the compiler refuses, because nobody could commit it.
 */
export async function drawMutants({ count, seed, below, taken }: DrawOptions): Promise<Record<string, TestedMutant>> {
  const compiler = new Compiler()
  try {
    const nearest = await NearestTests.read()
    const sources = await readSources(compiler, below)
    const random = seededRandom(1, seed)
    const one = <T>(all: readonly T[]): T => all[randomInteger(random, all.length)] as T
    const drawn: Record<string, TestedMutant> = {}
    let missing = count
    while (missing > 0 && sources.some(({ left }) => left.length > 0)) {
      const lines = sources.reduce((sum, source) => sum + source.lines, 0)
      const { file, text, left } = sourceAt(sources, randomInteger(random, lines))
      if (left.length === 0) continue
      const kind = one([...new Set(left.map((mistake) => mistake.kind))])
      const mistake = one(left.filter((other) => other.kind === kind))
      left.splice(left.indexOf(mistake), 1)
      const tests = nearest.of(file, TESTS_OF_ONE)
      const changed = text.slice(0, mistake.start) + mistake.instead + text.slice(mistake.end)
      if (tests.length === 0 || compiler.faultsIn(new Map([[file, changed]])).length > 0) continue
      const base = `${file.replace(/\.ts$/, '').replaceAll('/', '-')}-${kind}`
      let name = base
      for (let number = 2; name in drawn || taken.has(name); number++) name = `${base}-${number}`
      drawn[name] = { broken: mistake.broken, file, ...replacement(text, mistake), tests }
      missing--
    }
    return drawn
  } finally {
    compiler.close()
  }
}

async function readSources(compiler: Compiler, below: string): Promise<readonly Source[]> {
  const files = await Array.fromAsync(glob('**/*.ts', { cwd: join(root, 'src') }))
  const read = async (file: string): Promise<Source> => {
    const text = await readFile(join(root, 'src', file), 'utf8')
    return { file, text, lines: text.split('\n').length, left: compiler.mistakesIn(file) }
  }
  const chosen = files.filter((file) => file.startsWith(below) && !undecided.test(file)).sort()
  return (await Promise.all(chosen.map(read))).filter(({ left }) => left.length > 0)
}

function sourceAt(sources: readonly Source[], line: number): Source {
  let left = line
  const found = sources.find(({ lines }) => {
    left -= lines
    return left < 0
  })
  if (found === undefined) throw new RangeError(`there is no line ${line}`)
  return found
}

/** Whole lines, with as many lines before them as are needed to make the text unique in its file. */
function replacement(text: string, { start, end, instead }: Mistake): Pick<TestedMutant, 'text' | 'instead'> {
  const to = instead === '' ? end : text.indexOf('\n', end)
  for (let from = text.lastIndexOf('\n', start) + 1; ; from = text.lastIndexOf('\n', from - 2) + 1) {
    const lines = text.slice(from, to)
    const first = instead === '' ? from : from + lines.length - lines.trimStart().length
    const found = text.slice(first, to)
    if (from > 0 && text.split(found).length > 2) continue
    return { text: found, instead: text.slice(first, start) + instead + text.slice(end, to) }
  }
}
