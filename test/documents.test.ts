import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { banned } from './support/words.ts'

/** Every document of the repository, without those that are built or installed. */
const files = globSync('**/*.md', {
  exclude: (path) => /(?:^|[\\/])(?:node_modules|dist|\.git|peers|artefacts)$/.test(path),
}).sort()
const textOf = (file: string): string => readFileSync(file, 'utf8')

/** The number of words, as `wc -w` counts them. */
function words(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length
}

/** Only the prose, without code and without the parts of links that a reader does not see. */
function proseOf(text: string): string {
  const blank = (code: string): string => code.replaceAll(/[^\n]/g, ' ')
  return text
    .replaceAll(/^ *```.*?^ *```/gms, blank)
    .replaceAll(/`[^`\n]+`/g, blank)
    .replaceAll(/\]\([^)\n]*\)/g, blank)
}

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(text: string): ReadonlySet<string> {
  const headings = outsideFences(text).matchAll(/^#+ +(.+)$/gm)
  return new Set(
    [...headings].map(([, heading = '']) =>
      heading
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  )
}

function outsideFences(text: string): string {
  return text.replaceAll(/^ *```.*?^ *```/gms, '')
}

for (const [file, most] of [
  ['README.md', 1_000],
  ['ARCHITECTURE.md', 1_200],
] as const) {
  test(`${file} has at most ${most} words`, () => {
    const count = words(textOf(file))
    assert.ok(count > 100 && count <= most, `${count} words`)
  })
}

test('every relative link of a document leads to a file, and its anchor to a heading', () => {
  let links = 0
  for (const file of files) {
    for (const [, target = ''] of outsideFences(textOf(file)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      links++
      const [path = '', anchor] = target.split('#')
      const linked = path === '' ? file : join(dirname(file), path)
      assert.ok(existsSync(linked), `${file} links to ${target}`)
      if (anchor !== undefined) assert.ok(anchorsOf(textOf(linked)).has(anchor), `${file} links to ${target}`)
    }
  }
  assert.ok(links > 50)
})

test('every source file and folder that ARCHITECTURE.md names exists', () => {
  const named = [...textOf('ARCHITECTURE.md').matchAll(/`([\w./-]+(?:\/|\.ts))`/g)].map(([, path = '']) => path)
  const sources = globSync('{src,test}/**', { withFileTypes: false }).map((path) => `/${path.replaceAll('\\', '/')}`)
  assert.ok(named.length > 40)
  for (const path of named) {
    const wanted = `/${path.replace(/\/$/, '')}`
    assert.ok(
      sources.some((source) => source.endsWith(wanted)),
      `${path} does not exist`,
    )
  }
})

test('the documents contain no banned words', () => {
  const found = files.flatMap((file) =>
    proseOf(textOf(file))
      .split('\n')
      .flatMap((line, index) =>
        Object.entries(banned).flatMap(([words, instead]) => {
          const [word] = new RegExp(`\\b(?:${words})\\b`, 'i').exec(line) ?? []
          return word === undefined ? [] : [`${file}:${index + 1}: ${word} (instead: ${instead})`]
        }),
      ),
  )
  assert.deepEqual(found, [])
})

test('the glossary has at most 40 terms, each once', () => {
  const terms = [...textOf('docs/glossary.md').matchAll(/^\| ([^|]+) \| [^|]+ \|$/gm)].map(([, term]) => term).slice(2)
  assert.ok(terms.length > 20 && terms.length <= 40, `${terms.length} terms`)
  assert.equal(new Set(terms).size, terms.length)
})

test('docs/decisions/dependencies.md lists every dependency with its reason, and no other', () => {
  const { dependencies, devDependencies } = JSON.parse(textOf('package.json')) as Record<string, object>
  const rows = [...textOf('docs/decisions/dependencies.md').matchAll(/^\| (`.+`) \| (.+) \|$/gm)]
  const documented = rows.flatMap(([, names = '']) => [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name))
  assert.deepEqual(documented.sort(), Object.keys({ ...dependencies, ...devDependencies }).sort())
})

test('every decision has a context, a decision and consequences, and is in the list', () => {
  const list = textOf('docs/decisions/README.md')
  const pages = globSync('docs/decisions/*.md').filter((page) => !/(?:README|dependencies)\.md$/.test(page))
  assert.ok(pages.length > 20)
  for (const page of pages) {
    const parts = [...textOf(page).matchAll(/^\*\*(\w+)\.\*\* /gm)].map(([, part]) => part)
    assert.deepEqual(parts, ['Context', 'Decision', 'Consequences'], page)
    const title = /^# (.+)$/m.exec(textOf(page))?.[1]
    assert.ok(list.includes(`- [${title}](${page.split(/[\\/]/).at(-1)})\n`), page)
  }
})
