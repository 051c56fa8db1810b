import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderPage } from '../../../src/drill/report/page/page.ts'
import { palettes } from '../../../src/drill/report/page/styles.ts'
import type { Distribution, DrillReport, Figures } from '../../../src/drill/report/report.ts'
import { begin, step } from './histories.ts'
import { figures, masterCount, report, variant } from './reports.ts'

const violation = { atMs: 22_500, invariant: 'dead-master-removed', detail: '192.0.2.2 of master-2 is still listed' }
const fallen = variant('lease (etcd)', {
  held: false,
  runs: [
    { seed: 1, violations: [], events: [] },
    { seed: 2, violations: [violation], events: [{ ...violation, type: 'violation' }] },
    { seed: 3, violations: [violation, violation], events: [] },
  ],
})

test('the same report gives the same bytes, from memory or from report.json', () => {
  const whole = report([variant('lease (etcd)'), masterCount])
  const page = renderPage(whole)
  assert.equal(renderPage(whole), page)
  assert.equal(renderPage(JSON.parse(JSON.stringify(whole)) as DrillReport), page)
})

test('the page has no script and no reference to another resource', () => {
  const page = renderPage(report([variant('lease (etcd)'), fallen]))
  assert.match(page, /<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;;/)
  for (const never of [/<script/i, /<iframe/i, /\bsrc=/, /@import/, /https?:/, /url\((?!#)/, /\bon\w+="/]) {
    assert.doesNotMatch(page, never)
  }
  const references = [...page.matchAll(/\bhref="([^"]*)"/g)].map(([, href = '']) => href)
  assert.deepEqual(
    references.filter((href) => !href.startsWith('#') && href !== 'data:,'),
    [],
  )
})

test('every ID that links, labels and patterns refer to is on the page, and no ID occurs twice', () => {
  const page = renderPage(report([fallen, masterCount]))
  const ids = [...page.matchAll(/\bid="([^"]*)"/g)].map(([, id]) => id)
  assert.deepEqual(ids, [...new Set(ids)])
  const references = page.matchAll(/(?:\bhref="#|\baria-labelledby="|url\(#)([\w-]+)/g)
  for (const [, id] of references) assert.ok(ids.includes(id), id)
})

test('hostile strings in a report appear as text, never as markup', () => {
  const hostile = `'"><img src=x onerror=alert(1)>&amp;\u0000\u202E</style></title>`
  const everywhere = JSON.parse(
    JSON.stringify(report([{ ...fallen, knownFailures: [{ sentence: 'a', count: 1 }] }, masterCount]), (key, value) => {
      const ours = [
        'type',
        'outcome',
        'object',
        'sidecar',
        'server',
        'clientConnections',
        'target',
        'action',
        'address',
      ]
      return typeof value === 'string' && !ours.includes(key) ? `${value}${hostile}` : value
    }),
  ) as DrillReport
  const page = renderPage(everywhere)
  assert.ok(page.split('&lt;img src=x').length > 20)
  assert.doesNotMatch(page, /<img/)
  assert.doesNotMatch(page, /["']&gt;&lt;img|&#39;"|'&quot;/)
  assert.ok(!page.includes('\u0000') && !page.includes('\u202E'))
  assert.equal(page.split('</style>').length, 2)
  assert.match(page, /<title>[^<]*<\/title>\n<style>/)
})

test('violations come first on the page, with detail, time, seed and name of the invariant', () => {
  const page = renderPage(report([variant('lease (kubernetes)'), fallen]))
  const text = textOf(page)
  assert.match(text, /Did not hold: 3 violations in 4 runs of 2 reconcilers, with lease \(etcd\)\./)
  assert.match(text, /192\.0\.2\.2 of master-2 is still listed at 22\.500 s, seed 2; 3 times, with 2 seeds/)
  assert.match(text, /dead-master-removed/)
  assert.ok(page.indexOf('id="violations"') < page.indexOf('At a glance'))
  assert.doesNotMatch(renderPage(report([variant('lease (etcd)')])), /id="violations"/)
})

test('the page states that all invariants held if there are no violations', () => {
  assert.match(
    textOf(renderPage(report([variant('lease (etcd)')]))),
    /Held: all invariants held in 1 run of 1 reconciler\./,
  )
})

test('every number of the figures is on the page', () => {
  let next = 100_000
  const distinct = JSON.parse(
    JSON.stringify({ ...figures, timeToDetect: figures.timeToRemove }, (_key, value) => {
      next += 1013
      return typeof value === 'number' ? next : value
    }),
  ) as Figures
  const text = textOf(renderPage(report([variant('lease (etcd)', { figures: distinct })])))
  const missing = Object.entries(distinct).flatMap(([name, figure]) => absent(text, name, figure))
  assert.deepEqual(missing, [])
})

test('figures that were never measured appear as words or a dash', () => {
  const nothing: Distribution = {
    count: 0,
    never: 1,
    p50Ms: undefined,
    p99Ms: undefined,
    maxMs: undefined,
    samples: [{ master: 'master-9', cause: 'kill', atMs: 1, tookMs: undefined }],
  }
  const text = textOf(renderPage(report([variant('lease (etcd)', { figures: { ...figures, timeToDetect: nothing } })])))
  assert.match(text, /master-9 kill 0\.001 s never/)
  assert.match(text, /nothing measured; 1 never/)
  assert.match(text, /p50 –/)
})

test('the page contains the seed of every run, including runs that are not drawn', () => {
  const text = textOf(renderPage(report([fallen])))
  assert.match(
    text,
    /2 dead-master-removed 22\.500 s 192\.0\.2\.2 of master-2 is still listed 3 dead-master-removed.* 1 held – –/,
  )
  assert.match(text, /1 more run is not drawn; its seed and violations are below/)
})

test('of 100,000 runs the page lists those that did not hold, at most a thousand violations, and the seeds of the rest', () => {
  const broken = { violations: [violation], events: undefined }
  const some = Array.from({ length: 100_000 }, (_, seed) => ({
    seed,
    ...(seed === 500 || seed === 502 ? broken : { violations: [], events: undefined }),
  }))
  const text = textOf(renderPage(report([{ ...fallen, runs: some }])))
  assert.match(text, / 500 dead-master-removed .* 502 dead-master-removed .* 0 to 499, 501, 503 to 99999 held – –/)
  const all = some.map(({ seed }) => ({ seed, ...broken }))
  const page = renderPage(report([{ ...fallen, runs: all }]))
  assert.match(textOf(page), / 999 dead-master-removed [^–]* 99,000 further violations, see report\.json – –/)
  assert.ok(page.length < 1_000_000, `${page.length}`)
})

test('steps at one moment share a mark, which has the text of each', () => {
  const events = [...begin(3), step(5000, 'kill', [2]), step(5000, 'freeze', [3]), step(9000, 'thaw', [3])]
  const page = renderPage(report([variant('lease (etcd)', { runs: [{ seed: 1, violations: [], events }] })]))
  assert.match(page, /<title>1: kill master-2\n2: freeze master-3<\/title>/)
  assert.match(page, /<title>3: thaw master-3<\/title>/)
})

test('a page for ten busy minutes of seven masters and three reconcilers is smaller than 500 kB', () => {
  const masters = [1, 2, 3, 4, 5, 6, 7]
  const events = Array.from({ length: 60_000 }, (_, index) => restless(index * 10, masters[index % 7] ?? 1, index))
  const restlessVariant = (name: string) => variant(name, { runs: [{ seed: 1, violations: [], events }] })
  const { scenario } = report([])
  const page = renderPage(
    report(['lease (etcd)', 'master-count', 'none'].map(restlessVariant), {
      scenario: { ...scenario, durationMs: 600_000 },
    }),
  )
  assert.ok(Buffer.byteLength(page) < 500_000, String(Buffer.byteLength(page)))
  assert.match(textOf(page), /What lasted less than .* is not drawn here/)
  assert.match(textOf(page), /more are in report\.json/)
  assert.match(page, /<title>1: kill master-\d once more\nand \d+ more<\/title>/)
})

for (const [scheme, palette] of Object.entries(palettes)) {
  test(`text and charts have enough contrast in the ${scheme} scheme (WCAG AA)`, () => {
    for (const under of ['page', 'surface'] as const) {
      for (const name of ['text', 'aside', 'link', 'held', 'broken'] as const)
        assert.ok(contrast(palette, name, under) >= 4.5, `${name} on ${under}`)
      for (const name of ['life', 'served', 'listed', 'lease', 'amiss', 'dead'] as const)
        assert.ok(contrast(palette, name, under) >= 3, `${name} on ${under}`)
    }
  })
}

function restless(atMs: number, number: number, index: number) {
  const master = `master-${number}`
  const address = `192.0.2.${number}`
  const odd = Math.floor(index / 7) % 2 === 1
  if (index % 4 === 1)
    return {
      atMs,
      type: 'listed',
      object: odd ? 'slice' : 'endpoints',
      addresses: [address],
      by: master,
      damage: false,
    } as const
  if (index % 4 === 2)
    return { atMs, type: 'step', action: 'kill', masters: [master], text: `kill ${master} once more` } as const
  if (index % 4 === 3)
    return { atMs, type: 'connection', client: 'client-1', address, outcome: odd ? 'refused' : 'black-holed' } as const
  const server = odd ? 'ready' : 'silent'
  const clientConnections = odd ? 'served' : 'black-holed'
  return {
    atMs,
    type: 'state',
    master,
    address,
    sidecar: odd ? 'running' : 'frozen',
    server,
    clientConnections,
    renewing: odd,
    healthy: odd,
  } as const
}

/** The numbers of a figure that the text lacks. All numbers differ, so that none stands in for another. */
function absent(text: string, name: string, figure: unknown): readonly string[] {
  if (typeof figure === 'object' && figure !== null) {
    return Object.entries(figure).flatMap(([key, value]) => absent(text, `${name}.${key}`, value))
  }
  if (typeof figure !== 'number') return []
  const shown = name.endsWith('Ms')
    ? `${(figure / 1000).toFixed(3)} s`
    : name.endsWith('Share')
      ? `${(figure * 100).toFixed(3)} %`
      : figure.toFixed(0).replace(/(\d+)(\d{3})$/, '$1,$2')
  return text.includes(` ${shown} `) ? [] : [`${name}: ${shown}`]
}

/** The visible text in one line, without tags and style. */
function textOf(page: string): string {
  const [, body = ''] = page.split('<body>')
  const words = body.replaceAll(/<[^>]*>/g, ' ').replaceAll(/[\s\u00A0]+/g, ' ')
  return words.replaceAll('&#39;', "'")
}

/** The contrast ratio of WCAG 2. */
type Palette = (typeof palettes)['light']

function contrast(palette: Palette, text: keyof Palette, under: keyof Palette): number {
  const [brighter = 0, darker = 0] = [luminance(palette[text]), luminance(palette[under])].sort((a, b) => b - a)
  return (brighter + 0.05) / (darker + 0.05)
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
