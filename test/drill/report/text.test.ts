import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Figures } from '../../../src/drill/report/report.ts'
import { renderFigureTable, renderText } from '../../../src/drill/report/text.ts'
import { renderTranscript } from '../../../src/drill/report/transcript.ts'
import { figures, masterCount, report, variant } from './reports.ts'

test('a report that held shows the drill, known failures, the figures side by side and the command to repeat it', () => {
  assert.equal(
    renderText(report([variant('lease (etcd)'), masterCount])),
    `crash: A master dies without a word.
sim, 1m0s, seed 1, 3 masters, TTL 15s, interval 10s

Known failures:
  master-count: a dead master stays listed: master-count has no leases, and removes addresses only
  if there are more than --apiserver-count (seen 1x)

Figures, times as p50 / p99 / max:
                            lease (etcd)  master-count
time to detect (s)    9.97 / 9.97 / 9.97             -
time to remove (s)    10.0 / 10.0 / 10.0             -
  not until the end                    0             1
time to re-add (s)                     -             -
flaps                                  0             0
dead listed too long                   0             1
dead at the end                        0             1
fewest listed                          2             3
nobody listed (s)                   0.00          0.00
dead one listed (s)                 10.0          55.0
connections                         9800             0
  not served (%)                    0.00          0.00
  refused (%)                       0.00          0.00
  black-holed (%)                   0.00          0.00
  no address (%)                    0.00          0.00
  failed after stop                    0             0
writes                                 0             0
  most in 10 s                         0             0

held: apiserver-bootstrap drill crash --seed 1`,
  )
})

test('violations come first: name, sentence, first occurrence with time and seed, and the number of others', () => {
  const violations = [
    { atMs: 17_001, invariant: 'dead-master-removed', detail: '192.0.2.2 of master-2' },
    { atMs: 18_000, invariant: 'dead-master-removed', detail: '192.0.2.3 of master-3' },
    { atMs: 18_000, invariant: 'never-empty', detail: 'slice' },
  ] as const
  const runs = [
    { seed: 1, violations: [], events: [] },
    { seed: 2, violations, events: [] },
    { seed: 3, violations: violations.slice(0, 1), events: [] },
  ]
  const text = renderText(report([variant('lease (etcd)', { held: false, runs }), variant('none', { runs: [] })]))
  const [, failed = ''] = text.split('\n\n')
  assert.deepEqual(
    failed.split('\n').filter((line) => !/^ {4}[A-Z]/.test(line)),
    [
      'Did not hold:',
      '  dead-master-removed with lease (etcd)',
      '    +17.001s, seed 2: 192.0.2.2 of master-2, and 2 more in 2 runs',
      '  never-empty with lease (etcd)',
      '    +18.000s, seed 2: slice',
    ],
  )
  assert.match(failed, /dead-master-removed with lease \(etcd\)\n {4}A dead master is listed /)
  assert.match(text, /^sim, 1m0s, 3 runs, seeds 1 to 3, /m)
  assert.match(text, /\n\ndid not hold: apiserver-bootstrap drill crash --seed 1$/)
})

test('a report without a command ends with the seed, and omits sections without content', () => {
  const text = renderText(report([variant('none')], { command: '', seed: 7 }))
  assert.match(text, /\n\nheld: seed 7$/)
  assert.doesNotMatch(text, /Did not hold|Known failures/)
})

test('no line is wider than 100 characters: columns that do not fit go to a second table', () => {
  const names = ['lease (etcd)', 'lease (kine)', 'lease (kubernetes)', 'lease (memory)', 'master-count', 'none']
  for (let count = 1; count <= names.length; count++) {
    const lines = renderText(report(names.slice(0, count).map((name) => variant(name)))).split('\n')
    assert.ok(lines.every(({ length }) => length <= 100))
    const heads = lines.filter((line) => /^ {20}.*[a-z]/.test(line))
    assert.equal(heads.length, count <= 4 ? 1 : 2, heads.join('\n'))
    assert.deepEqual(heads.join('  ').trim().split(/ {2,}/), names.slice(0, count))
  }
})

test('a column that fits exactly stays beside the others', () => {
  const columns = [variant('lease (etcd)'), variant('lease (kine)')]
  const width = Math.max(...renderFigureTable(columns, 1000).map(({ length }) => length))
  const heads = (within: number): number =>
    renderFigureTable(columns, within).filter((line) => line.includes('lease (')).length
  assert.deepEqual([heads(width), heads(width - 1)], [1, 2])
})

test('a long description is wrapped between words', () => {
  const description = Array.from({ length: 40 }, (_, index) => `word${index}`).join(' ')
  const text = renderText(report([variant('none')], { scenario: { ...report([]).scenario, description } }))
  assert.ok(text.split('\n').every(({ length }) => length <= 100))
  assert.ok(text.replaceAll('\n', ' ').includes(description))
})

test('times are rounded to three digits or two decimals, and a small share is never rounded to zero', () => {
  const cells = (change: Partial<Figures>): readonly string[] => {
    const lines = renderFigureTable([{ name: 'x', figures: { ...figures, ...change } }], 100)
    return lines.map((line) => line.replace(/ {2,}/g, '  ').trim())
  }
  for (const [ms, text] of [
    [0, '0.00'],
    [41, '0.04'],
    [9994, '9.99'],
    [9995, '10.0'],
    [14_960, '15.0'],
    [99_949, '99.9'],
    [99_950, '100'],
    [600_000, '600'],
  ] as const) {
    assert.ok(cells({ emptyMs: ms }).includes(`nobody listed (s)  ${text}`), `${ms} is not ${text}`)
  }
  const connections = { ...figures.connections, total: 48_000, served: 47_998, refused: 2, deadShare: 2 / 48_000 }
  assert.ok(cells({ connections }).includes('not served (%)  <0.01'))
  assert.ok(cells({ connections }).includes('refused (%)  <0.01'))
  assert.ok(cells({ connections: { ...connections, blackHoled: 12_000 } }).includes('black-holed (%)  25.00'))
})

test('the number of measured times appears above one, and the number of those that never ended above zero', () => {
  const lines = (count: number, never: number): readonly string[] => {
    const timeToRemove = { ...figures.timeToRemove, count, never }
    return renderFigureTable([{ name: 'x', figures: { ...figures, timeToRemove } }], 100).filter((line) =>
      /times measured|not until/.test(line),
    )
  }
  assert.deepEqual(lines(1, 0), [])
  assert.equal(lines(2, 0).length, 1)
  assert.equal(lines(2, 3).length, 2)
})

test('text from a cluster is shown in one line, with control characters escaped', () => {
  const detail = '192.0.2.2\u001b[2J\nheld: all of it\u202e'
  const violation = { atMs: 1000, invariant: 'dead-master-removed', detail }
  const run = { seed: 1, violations: [violation], events: [{ ...violation, type: 'violation' as const }] }
  const shown = '192.0.2.2\\u001b[2J\\u000aheld: all of it\\u202e'
  assert.ok(renderText(report([variant('lease (etcd)', { held: false, runs: [run] })])).includes(shown))
  assert.ok(
    renderTranscript(run)
      .split('\n')
      .some((line) => line.endsWith(shown)),
  )
})
