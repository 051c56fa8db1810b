import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { renderPage } from '../../src/drill/report/page/page.ts'
import type { DrillReport } from '../../src/drill/report/report.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import { scenario } from '../drill/report/reports.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Display, type Opened, startChromium } from './drill-page/chromium.ts'
import { clippedTexts, faintTexts, focusStops, stopsToExpect } from './drill-page/contrast.ts'
import { expectedCells, readTables, tableOf } from './drill-page/figures.ts'

const artefacts = resolve(import.meta.dirname, '../artefacts')
const desk = 1440
const phone = 360

suite('the page of a drill report, in a browser', () => {
  const owner = openOwner({ after })
  let report: DrillReport
  let open: (display: Display & { readonly longNames?: boolean }) => Promise<Opened>

  before(async () => {
    const killed = { atMs: 5000, action: 'kill', masters: ['master-2'], part: 'both' } as const
    const stopped = { atMs: 30_000, action: 'terminate', masters: ['master-3'], part: 'both', forMs: 10_000 } as const
    report = await runDrill(
      { ...scenario, steps: [killed, stopped] },
      {
        runs: 2,
        version: '0.0.0',
        command: 'apiserver-bootstrap drill crash --runs 2',
        variants: [
          { name: 'lease (etcd)', fleet: {} },
          { name: 'master-count', fleet: { reconciler: 'master-count' } },
          { name: 'none', fleet: { reconciler: 'none' } },
        ],
      },
    )
    const file = join(temporaryDirectory(owner, 'drill-page'), 'report.html')
    writeFileSync(file, renderPage(report))
    mkdirSync(artefacts, { recursive: true })
    const unwieldy = join(dirname(file), 'unwieldy.html')
    writeFileSync(unwieldy, renderPage(withLongNames(report)))
    const openIn = await startChromium(owner)
    open = (display) => openIn(pathToFileURL(display.longNames ? unwieldy : file).href, display)
  })
  test('the page loads from a file without an error and requests nothing else', async (t) => {
    const { page, messages, requests } = await opened(t, { width: desk, scheme: 'light' })
    await unfold(page)
    assert.deepEqual(messages, [])
    assert.deepEqual(requests, [page.url()])
  })

  test('the page shows every figure of report.json in the right row and column', async (t) => {
    const { page } = await opened(t, { width: desk, scheme: 'light' })
    await unfold(page)
    const tables = await readTables(page)
    const { numbers, cells } = expectedCells(report)
    assert.ok(numbers > 3 * 20, String(numbers))
    const missing = cells.filter(({ table, path, text }) => tableOf(tables, table)[path] !== text)
    assert.deepEqual(
      missing.map((cell) => ({ ...cell, shown: tableOf(tables, cell.table)[cell.path] })),
      [],
    )
  })

  test('every sample, run and violation of report.json is on the page', async (t) => {
    const { page } = await opened(t, { width: desk, scheme: 'light' })
    await unfold(page)
    const rows = await page.locator('table tr').allInnerTexts()
    const shown = new Set(rows.map((row) => row.replaceAll(/[\s\u00A0]+/g, ' ').trim()))
    const at = (ms: number): string => `${(ms / 1000).toFixed(3)} s`
    const expected = report.variants.flatMap(({ figures, runs }) => [
      ...[figures.timeToDetect, figures.timeToRemove, figures.timeToAddAgain].flatMap(({ samples }) =>
        samples.map(
          ({ master, cause, atMs, tookMs }) =>
            `${master} ${cause} ${at(atMs)} ${tookMs === undefined ? 'never' : at(tookMs)}`,
        ),
      ),
      ...runs.flatMap(({ seed, violations }) =>
        violations.map(({ invariant, atMs, detail }) => `${seed} ${invariant} ${at(atMs)} ${detail}`),
      ),
    ])
    // One row of a variant has the seeds of all runs that held, such as `1 to 3, 5`.
    for (const { runs } of report.variants) {
      const held = runs.filter(({ violations }) => violations.length === 0).map(({ seed }) => seed)
      const [first, last] = [held[0], held.at(-1)]
      if (first === undefined || last === undefined) continue
      assert.equal(last - first + 1, held.length, 'the seeds are consecutive')
      expected.push(`${first === last ? first : `${first} to ${last}`} held – –`)
    }
    assert.ok(expected.length > 12)
    assert.deepEqual(
      expected.filter((row) => !shown.has(row)),
      [],
    )
  })

  for (const scheme of ['light', 'dark'] as const) {
    test(`all text has enough contrast in the ${scheme} scheme`, async (t) => {
      for (const width of [desk, phone]) {
        const { page } = await opened(t, { width, scheme })
        await page.screenshot({ path: join(artefacts, `drill-page-${scheme}-${width}.png`), fullPage: true })
        await unfold(page)
        const { faint, checked } = await faintTexts(page)
        assert.ok(checked > 200, String(checked))
        assert.deepEqual(faint, [])
      }
    })
  }

  test('the page follows the colour scheme of the reader', async (t) => {
    const { page } = await opened(t, { width: desk, scheme: 'light' })
    const colours = () =>
      page.locator('body').evaluate((body) => {
        const document = body.ownerDocument
        const { getComputedStyle } = document.defaultView
        const of = (selector: string) => {
          const { color, backgroundColor } = getComputedStyle(document.querySelector(selector))
          return [color, backgroundColor]
        }
        return [...of('body'), ...of('.card'), ...of('nav a'), getComputedStyle(document.documentElement).colorScheme]
      })
    const light = await colours()
    await page.emulateMedia({ colorScheme: 'dark' })
    const dark = await colours()
    assert.deepEqual(
      light.filter((colour, index) => colour === dark[index] && /^rgb\(/.test(colour)),
      [],
    )
    assert.equal(dark.at(-1), 'light dark')
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    assert.deepEqual((await colours())[0], light[0])
  })

  for (const width of [phone, 1280, desk]) {
    test(`at a width of ${width} px the sample charts are aligned with their axis`, async (t) => {
      const { page } = await opened(t, { width, scheme: 'light' })
      const places = await page.locator('.strip').evaluateAll((all) =>
        all.map((one) =>
          [...one.querySelectorAll('svg')].map((svg) => {
            const { left, right } = svg.getBoundingClientRect()
            return [Math.round(left), Math.round(right)].join(' to ')
          }),
        ),
      )
      assert.equal(places.length, 3)
      for (const place of places) assert.deepEqual([...new Set(place)].length, 1, JSON.stringify(place))
    })
  }

  for (const width of [phone, 320, desk]) {
    test(`at a width of ${width} px no text is cut off, collapsed or expanded, even with long names`, async (t) => {
      for (const longNames of [false, true]) {
        const { page } = await opened(t, { width, scheme: 'light', longNames })
        for (const how of ['folded', 'unfolded']) {
          if (how === 'unfolded') await unfold(page)
          assert.equal(await page.locator('html').evaluate(({ scrollWidth }) => scrollWidth), width, how)
          assert.deepEqual(await clippedTexts(page), [], how)
        }
      }
    })
  }

  test('Tab reaches every control in order, with a visible focus', async (t) => {
    const { page } = await opened(t, { width: phone, scheme: 'dark' })
    const expected = await stopsToExpect(page)
    const stops = await focusStops(page, expected.length)
    assert.deepEqual(
      stops.map(({ name }) => name),
      expected,
    )
    assert.deepEqual(
      stops.filter(({ seen }) => !seen),
      [],
    )
  })

  test('the skip link, collapsed sections and wide tables work with the keyboard alone', async (t) => {
    const { page } = await opened(t, { width: phone, scheme: 'light' })
    await page.keyboard.press('Tab')
    assert.equal(await page.locator(':focus').textContent(), 'Skip to the report')
    await page.keyboard.press('Enter')
    assert.equal(await page.locator(':focus').getAttribute('id'), 'main')
    for (const [index, summary] of (await page.locator('summary').all()).entries()) {
      await summary.focus()
      await page.keyboard.press('Enter')
      assert.ok(
        await page
          .locator('details')
          .nth(index)
          .evaluate(({ open }) => open),
      )
    }
    const wide = page.getByRole('region', { name: 'States over time of lease (etcd), seed 1' })
    await wide.focus()
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowRight')
    await page.waitForFunction(
      (region) => (region?.scrollLeft ?? 0) > 0 && (region?.scrollTop ?? 0) > 0,
      await wide.elementHandle(),
    )
  })

  test('the page has one first-level heading, landmarks, and distinct names of regions', async (t) => {
    const { page } = await opened(t, { width: desk, scheme: 'light' })
    await unfold(page)
    for (const landmark of ['banner', 'navigation', 'main', 'contentinfo'] as const) {
      assert.equal(await page.getByRole(landmark).count(), 1, landmark)
    }
    const levels = await page
      .locator('h1,h2,h3,h4')
      .evaluateAll((all) => all.map(({ tagName }) => Number(tagName.slice(1))))
    assert.equal(levels.filter((level) => level === 1).length, 1)
    assert.deepEqual(
      levels.filter((level, index) => level > (levels[index - 1] ?? 0) + 1),
      [],
    )
    const regions = await page
      .locator('[role=region]')
      .evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')))
    assert.deepEqual(regions, [...new Set(regions)])
    const loose = await page
      .locator('table')
      .evaluateAll((all) => all.filter((one) => one.caption === null || one.querySelector('th:not([scope])')).length)
    assert.equal(loose, 0)
  })

  async function opened(t: TestContext, display: Parameters<typeof open>[0]): Promise<Opened> {
    const one = await open(display)
    t.after(() => one.page.close())
    return one
  }
})

/** The same report with names that are too long for any place on the page. */
function withLongNames(report: DrillReport): DrillReport {
  const text = JSON.stringify(report).replaceAll('master-2', `master-2-${'x'.repeat(90)}`)
  return JSON.parse(text.replaceAll('"none"', `"none-${'y'.repeat(70)}"`)) as DrillReport
}

async function unfold(page: Page): Promise<void> {
  await page.locator('details').evaluateAll((all) => {
    for (const one of all) one.open = true
  })
}
