import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidInputError } from '../../src/documents/validation.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

/** The lines with which a text is refused. */
function refusal(text: string): readonly string[] {
  try {
    parseYaml(text, 'a.yaml')
  } catch (error) {
    assert.ok(error instanceof InvalidInputError)
    return error.message.split('\n')
  }
  return assert.fail('it was accepted')
}

test('a document is plain data by the core schema of YAML 1.2', () => {
  const { value } = parseYaml('a: yes\nb: 0o17\nc: [1, true, ~]\nd: {e: "010.0.0.1"}\n', 'a.yaml')
  assert.deepEqual(value, { a: 'yes', b: 15, c: [1, true, null], d: { e: '010.0.0.1' } })
})

test('each value and key knows where it stands', () => {
  const document = parseYaml('# head\na: 1\nlist:\n  - x\n  -  y\nmap: {one: 1,\n  two: 2}\n', 'a.yaml')
  assert.equal(document.positionOf(['a']), 'a.yaml:2:4')
  assert.equal(document.positionOf(['a'], 'key'), 'a.yaml:2:1')
  assert.equal(document.positionOf(['list', 1]), 'a.yaml:5:6')
  assert.equal(document.positionOf(['map', 'two']), 'a.yaml:7:8')
  assert.equal(document.positionOf(['map', 'two'], 'key'), 'a.yaml:7:3')
})

test('a place that does not exist is that of the nearest parent', () => {
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

test('a value left out stands where its key stands', () => {
  assert.equal(parseYaml('a: 1\nb:\n', 'a.yaml').positionOf(['b']), 'a.yaml:2:3')
})

test('every mistake of syntax is one line with its place', () => {
  assert.deepEqual(refusal('a: 1\nb: 2\na: 3\nb: 4\n'), [
    'a.yaml:3:1: map keys must be unique',
    'a.yaml:4:1: map keys must be unique',
  ])
  assert.match(refusal('a:\n\tb: 1\n').join(), /^a\.yaml:2:1: tabs are not allowed as indentation/)
  assert.match(refusal('a: "open\n').join(), /^a\.yaml:2:1: missing closing "quote/)
  assert.match(refusal('a: *nowhere\n').join(), /^a\.yaml:1:4: the alias \*nowhere has no anchor/)
  for (const line of refusal('a: [1\nb: }\n')) assert.match(line, /^a\.yaml:\d+:\d+: \S/)
})

test('one document is read, not none and not two', () => {
  assert.deepEqual(refusal(''), ['a.yaml:1:1: is empty'])
  assert.deepEqual(refusal('# only a remark\n'), ['a.yaml:1:1: is empty'])
  assert.deepEqual(refusal('a: 1\n---\nb: 1\n'), ['a.yaml:2:1: a second document begins here; only one is read'])
  assert.deepEqual(parseYaml('---\na: 1\n...\n', 'a.yaml').value, { a: 1 })
})

test('aliases that multiply are refused where they begin', () => {
  const level = (n: number): string =>
    `l${n}: &l${n} [${Array(9)
      .fill(`*l${n - 1}`)
      .join()}]\n`
  const bomb = `l0: &l0 [x]\n${[1, 2, 3, 4, 5, 6, 7, 8].map(level).join('')}`
  assert.deepEqual(refusal(bomb), ['a.yaml:2:10: aliases expand to more than 100 copies'])
})

test('a file that nobody wrote by hand is refused unread', () => {
  assert.deepEqual(refusal(`a: ${'x'.repeat(1 << 20)}`), ['a.yaml: is larger than 1 MiB'])
})

test('a key cannot reach the prototype', () => {
  const { value } = parseYaml('__proto__: {polluted: true}\n', 'a.yaml')
  assert.equal((value as { polluted?: boolean }).polluted, undefined)
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})
