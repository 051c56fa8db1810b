import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidInputError } from '../../src/documents/validation.ts'
import { parseYaml, parseYamlDocuments } from '../../src/documents/yaml.ts'

/** The lines of the error that refuses a text. */
function refusal(text: string): readonly string[] {
  try {
    parseYaml(text, 'a.yaml')
  } catch (error) {
    assert.ok(error instanceof InvalidInputError)
    return error.message.split('\n')
  }
  return assert.fail('the invalid document was accepted')
}

test('a document is parsed to plain data by the core schema of YAML 1.2', () => {
  const { value } = parseYaml('a: yes\nb: 0o17\nc: [1, true, ~]\nd: {e: "010.0.0.1"}\n', 'a.yaml')
  assert.deepEqual(value, { a: 'yes', b: 15, c: [1, true, null], d: { e: '010.0.0.1' } })
})

test('positionOf returns the line and column of each value and key', () => {
  const document = parseYaml('# head\na: 1\nlist:\n  - x\n  -  y\nmap: {one: 1,\n  two: 2}\n', 'a.yaml')
  assert.equal(document.positionOf(['a']), 'a.yaml:2:4')
  assert.equal(document.positionOf(['a'], 'key'), 'a.yaml:2:1')
  assert.equal(document.positionOf(['list', 1]), 'a.yaml:5:6')
  assert.equal(document.positionOf(['map', 'two']), 'a.yaml:7:8')
  assert.equal(document.positionOf(['map', 'two'], 'key'), 'a.yaml:7:3')
})

test('the position of a missing path is the position of its nearest parent', () => {
  const document = parseYaml('a: 1\nmap:\n  one: 1\n', 'a.yaml')
  assert.equal(document.positionOf(['map', 'three', 'four']), 'a.yaml:3:3')
  assert.equal(document.positionOf(['none']), 'a.yaml:1:1')
  assert.equal(document.positionOf([]), 'a.yaml:1:1')
})

test('a position is found through an alias and under a numeric key', () => {
  const document = parseYaml('base: &base\n  - x\ncopy: *base\n8080: z\n', 'a.yaml')
  assert.equal(document.positionOf(['copy', 0]), 'a.yaml:2:5')
  assert.equal(document.positionOf(['8080']), 'a.yaml:4:7')
})

test('the position of an omitted value is right after its key', () => {
  assert.equal(parseYaml('a: 1\nb:\n', 'a.yaml').positionOf(['b']), 'a.yaml:2:3')
})

const second = 'a second ": " in one line; put the value in quotation marks, or on lines of its own'
const follows = 'nothing may follow the value on this line but a comment'
const indented = 'does not match the indentation of its siblings or parent'
const noSetting = 'is not a setting: write NAME: VALUE, with a space after the colon'

/** Mistakes that a person may make, and the lines of the refusal, each without the file's name. */
const slips: readonly (readonly [text: string, ...lines: readonly string[]])[] = [
  ['a:\n\tb: 1\n', '2:1: this line is indented with a tab; YAML allows only spaces'],
  ['a: "open\nb: 1\n', '1:4: the quotation mark that begins here is not closed'],
  ["a: 1\nb: 'open\n", '2:4: the quotation mark that begins here is not closed'],
  ['b: 1\na: [\nc\n', '2:4: the [ here is not closed with ]'],
  ['b: 2\na:1\nc: 3\n', `2:1: "a:1" ${noSetting}`],
  ['a: 1\nb\n', `2:1: "b" ${noSetting}`],
  ['a: 1\n  b: 2\n', '1:4: the next line is indented as if it belonged to this value; align it with its siblings'],
  ['a:\n  b: 1\n c: 2\n', `3:1: this line ${indented}`],
  ['a:\n  - x\n - y\n', `3:1: this list item ${indented}`],
  ['a: [1, 2\nb: 3\n', '1:4: the [ here is not closed with ]'],
  ['a: {b: [1], c: 2\nd: 3\n', '1:4: the { here is not closed with }'],
  ['a: [1, 2]]\n', '1:10: ] has no opening bracket'],
  ['a: ["x" "y"]\n', '1:9: a comma is missing between two items'],
  ['a: {b: 1 c: 2}\n', '1:8: a comma is missing: items between [ and ] or { and } are separated by commas'],
  ['a: [1,,2]\n', '1:7: an extra comma, or a missing item'],
  ['a: b: c\n', `1:4: ${second}`],
  ['a: @x\n', '1:4: a value that begins with @ must be in quotation marks'],
  ['a: *\n', '1:4: a value that begins or ends like an alias or anchor (* and &) must be in quotation marks'],
  ['a: &a [1, *a]\n', '1:11: the alias *a refers to a value that contains it'],
  ['a: *.x\n', '1:4: the alias *.x has no anchor; put a value that begins with * in quotation marks'],
  ['a: !x y\n', '1:4: a value that begins with ! must be in quotation marks; tags are not supported'],
  ['a: "C:\\dir"\n', `1:7: \\d is not a valid escape between " and "; write \\\\ for a backslash, or use ' and '`],
  ['a: "x"#c\n', '1:7: a space is missing before #'],
  ['a: "x" y\n', `1:8: ${follows}`],
  ['a: | x\n  y\n', '1:6: nothing may follow | or > on its line'],
  ['a: - x\n', '1:4: a list begins on a line of its own, below its key'],
  ['a: &x &y 1\n', '1:7: is not valid YAML: a node can have at most one anchor'],
  [`a: it's: x\nb: 'don't'\n`, `1:4: ${second}`, `2:9: ${follows}`],
  ['a:\n  ? [b]\n  : c\n', '2:5: a key must be text, not a list, a mapping or an alias'],
  ['a: &a {b: c}\n*a : d\n', '2:1: a key must be text, not a list, a mapping or an alias'],
  ['a: 1\na: 2\nb: "x" y\n', '2:1: "a" is given twice', `3:8: ${follows}`],
]
for (const [text, ...lines] of slips) {
  test(`${JSON.stringify(text)} is refused with one plain line per mistake, with its position`, () => {
    assert.deepEqual(
      refusal(text),
      lines.map((line) => `a.yaml:${line}`),
    )
  })
}

test('a duplicate key is reported; the rest is read and the last value wins', () => {
  const { value, mistakes, positionOf } = parseYaml('a: 1\nb: 2\na: 3\nb: 4\n', 'a.yaml')
  assert.deepEqual(mistakes, [
    { where: 'a.yaml:3:1', message: '"a" is given twice' },
    { where: 'a.yaml:4:1', message: '"b" is given twice' },
  ])
  assert.deepEqual([value, positionOf(['a'])], [{ a: 3, b: 4 }, 'a.yaml:3:4'])
})

test('a number or boolean key and the same text in quotation marks are duplicates', () => {
  const { value, mistakes } = parseYaml('1: a\n"1": b\ntrue: c\n"true": d\n', 'a.yaml')
  assert.deepEqual(value, { 1: 'b', true: 'd' })
  assert.deepEqual(
    mistakes.map(({ where }) => where),
    ['a.yaml:2:1', 'a.yaml:4:1'],
  )
})

test('exactly one document is accepted; none and two are refused', () => {
  assert.deepEqual(refusal(''), ['a.yaml:1:1: is empty'])
  assert.deepEqual(refusal('# only a remark\n'), ['a.yaml:1:1: is empty'])
  assert.deepEqual(refusal('a: 1\n---\nb: 1\n'), ['a.yaml:2:1: a second document begins here; only one is allowed'])
  assert.deepEqual(parseYaml('---\na: 1\n...\n', 'a.yaml').value, { a: 1 })
})

test('too many aliases, and aliases that expand too far, are refused with their position', () => {
  const level = (n: number): string =>
    `l${n}: &l${n} [${Array(9)
      .fill(`*l${n - 1}`)
      .join()}]\n`
  const bomb = `l0: &l0 [x]\n${[1, 2, 3, 4, 5, 6, 7, 8].map(level).join('')}`
  const refused = 'a.yaml:4:18: more than 20 aliases in one file; write the values out instead of *l2'
  assert.deepEqual(refusal(bomb), [refused])
  const small = 'a: &a [x]\nb: &b [*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n'
  assert.deepEqual(refusal(small), ['a.yaml:2:8: aliases expand to more than 20 copies'])
})

test('twenty aliases are accepted and one more is refused; each refers to the last anchor of its name before it', () => {
  const text = `a: &x 1\nb: [${Array(19).fill('*x').join()}]\nc: &x 2\nd: *x\n`
  assert.deepEqual(parseYaml(text, 'a.yaml').value, { a: 1, b: Array(19).fill(1), c: 2, d: 2 })
  assert.deepEqual(refusal(`${text}e: *x\n`), [
    'a.yaml:5:4: more than 20 aliases in one file; write the values out instead of *x',
  ])
})

test('files with thousands of keys or mistakes are read with the right positions and mistakes', () => {
  const many = (lineOf: (number: number) => string, length = 20_000): string =>
    Array.from({ length }, (_, i) => lineOf(i)).join('')
  const { mistakes, positionOf } = parseYaml(`${many((i) => `k${i}: 1\n`)}k7: 2\n`, 'a.yaml')
  assert.deepEqual(mistakes, [{ where: 'a.yaml:20001:1', message: '"k7" is given twice' }])
  for (let i = 0; i < 20_000; i++) if (i !== 7) assert.equal(positionOf([`k${i}`], 'key'), `a.yaml:${i + 1}:1`)
  const flow = parseYaml(`{a: [${many(() => '{k,k},')}]}`, 'a.yaml')
  assert.equal(flow.mistakes.length, 20_000)
  assert.equal(refusal(`a: &a 1\nb: [${many(() => '*a,', 2_000)}]\n`).length, 1)
  assert.equal(refusal(many(() => 'a: [\n', 2_000)).filter((line) => line.endsWith('not closed with ]')).length, 100)
})

test('a file larger than 256 KiB is refused', () => {
  assert.deepEqual(refusal(`a: ${'x'.repeat(256 << 10)}`), ['a.yaml: is larger than 256 KiB'])
})

test('a __proto__ key does not pollute the prototype', () => {
  const { value } = parseYaml('__proto__: {polluted: true}\n', 'a.yaml')
  assert.equal((value as { polluted?: boolean }).polluted, undefined)
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})

test('several documents are read without the empty ones, with line numbers of the whole file, up to a size and count', () => {
  const text = '# first\n---\na: 1\n---\n\n  # nothing\n---\n--- # b\nb: 2\n'
  assert.deepEqual(parseYamlDocuments(text, 'a.yaml', 1000), [{ a: 1 }, { b: 2 }])
  const blank = `${' \n'.repeat(50_000)} # ${' #'.repeat(1000)}\n`
  assert.deepEqual(parseYamlDocuments(`${blank}---\na: 1\n`, 'a.yaml', 1_000_000), [{ a: 1 }])
  assert.throws(() => parseYamlDocuments('a: 1\n---\nb: [\n', 'a.yaml', 1000), /a.yaml:3:4/)
  assert.throws(() => parseYamlDocuments('a: 1\n', 'a.yaml', 4), /is larger than/)
  assert.throws(() => parseYamlDocuments('---\na\n'.repeat(1_000), 'a.yaml', 10_000), /has more than 1000 documents/)
})
