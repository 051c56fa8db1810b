import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderJunit } from '../../../src/drill/report/junit.ts'
import { invariantNames, sentenceOf } from '../../../src/verify/invariants.ts'
import { masterCount, report, variant } from './reports.ts'

const violation = (detail: string): { atMs: number; invariant: 'never-empty'; detail: string } => {
  return { atMs: 17_000, invariant: 'never-empty', detail }
}
const failing = (...details: readonly string[]): string =>
  renderJunit(
    report([variant('none', { held: false, runs: [{ seed: 4, violations: details.map(violation), events: [] }] })]),
  )

test('each variant is a test suite, each invariant a test case, and the figures are properties', () => {
  const xml = renderJunit(report([variant('lease (etcd)'), masterCount]))
  const count = invariantNames.length
  assert.match(xml, /^<\?xml version="1.0" encoding="UTF-8"\?>\n<testsuites name="crash" /)
  assert.ok(xml.includes(`<testsuites name="crash" tests="${2 * count}" failures="0" errors="0" time="120.000">`))
  assert.ok(
    xml.includes(`<testsuite name="lease (etcd)" tests="${count}" failures="0" errors="0" skipped="0" time="60.000">`),
  )
  for (const name of invariantNames) {
    assert.ok(xml.includes(`<testcase name="${name}" classname="crash.lease (etcd)" time="0.000"/>`))
  }
  for (const [name, value] of [
    ['target', 'sim'],
    ['seed', '1'],
    ['command', 'apiserver-bootstrap drill crash --seed 1'],
    ['timeToRemove.p50Ms', '10000'],
    ['timeToRemove.never', '1'],
    ['fewestListed', '2'],
    ['connections.served', '9800'],
    ['writes.mostInTenSeconds', '0'],
  ]) {
    assert.ok(xml.includes(`<property name="${name}" value="${value}"/>`), name)
  }
  assert.ok(!xml.includes('samples'))
  assert.ok(!xml.includes('undefined'))
})

test('a violated invariant is a failed test case with its sentence and each violation', () => {
  const xml = failing('slice is empty', 'endpoints are')
  const counts = `tests="${invariantNames.length}" failures="1" errors="0"`
  assert.ok(xml.includes(`<testsuites name="crash" ${counts} time="60.000">`))
  assert.ok(xml.includes(`<testsuite name="none" ${counts} skipped="0" time="60.000">`))
  const sentence = sentenceOf('never-empty')
  const failure = `<failure message="${sentence}" type="never-empty">+17.000s, seed 4: slice is empty\n+17.000s, seed 4: endpoints are</failure>`
  assert.ok(
    xml.includes(
      `<testcase name="never-empty" classname="crash.none" time="0.000">\n      ${failure}\n    </testcase>`,
    ),
  )
})

test('several runs form one test suite, whose time is the sum of theirs', () => {
  const runs = [1, 2, 3].map((seed) => ({ seed, violations: [], events: undefined }))
  assert.match(renderJunit(report([variant('none', { runs })])), /<testsuite name="none" .* time="180.000">/)
})

test('an invariant that this version does not know gets a test case of its own', () => {
  const old = { ...violation('x'), invariant: 'from-long-ago' } as unknown as ReturnType<typeof violation>
  const xml = renderJunit(report([variant('none', { runs: [{ seed: 1, violations: [old], events: [] }] })]))
  assert.ok(xml.includes(`tests="${invariantNames.length + 1}" failures="1"`))
  assert.ok(xml.includes('<failure message="from-long-ago" type="from-long-ago">'))
})

test('text is escaped, and characters that XML does not allow are replaced', () => {
  const xml = failing('a < b && c > "d" ]]> \u0000\u0008\u000b\u001f\ufffe \ud800 tab\there 😀')
  assert.ok(xml.includes('a &lt; b &amp;&amp; c &gt; "d" ]]&gt;'))
  assert.ok(xml.includes('\ufffd\ufffd\ufffd\ufffd\ufffd \ufffd tab\there 😀</failure>'))
  const named = renderJunit(report([variant('a "b" <c>\t\n\r&\u0001')]))
  assert.ok(named.includes('<testsuite name="a &quot;b&quot; &lt;c&gt;&#9;&#10;&#13;&amp;\ufffd" '))
})

test('every XML element is closed in order, and no unknown entity occurs', () => {
  for (const xml of [
    failing('a', '<b>'),
    renderJunit(report([variant('lease (etcd)'), masterCount, variant('none')])),
  ]) {
    const open: string[] = []
    const [, ...tags] = xml.matchAll(/<(\/?)([a-z]+)((?: [a-zA-Z]+="[^"<]*")*)(\/?)>|<[^>]*>/g)
    for (const [tag, closing, name = '', , alone] of tags) {
      assert.notEqual(name, '', tag)
      if (closing === '/') assert.equal(open.pop(), name)
      else if (alone !== '/') open.push(name)
    }
    assert.deepEqual(open, [])
    assert.doesNotMatch(xml, /&(?!(amp|lt|gt|quot|#9|#10|#13);)/)
    assert.ok(xml.endsWith('</testsuites>\n'))
  }
})
