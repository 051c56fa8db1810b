import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { startCluster } from '../peers/cluster.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { listedIn, readState } from '../peers/kubernetes-service.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Program, programPath, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { type Child, spawnChild } from '../support/spawn-child.ts'
import { type Display, type Opened, startChromium } from './drill-page/chromium.ts'
import { clippedTexts, faintTexts } from './drill-page/contrast.ts'

const artefacts = resolve(import.meta.dirname, '../artefacts')
const addresses = [1, 2, 3, 4, 5].map((number) => `192.0.2.${number}`)
const withinMs = 60_000
/** On an idle machine it takes a tenth of a second; this limit only shows that it is no accident. */
const seenWithinMs = 20_000

suite('the status page of a fleet, in a browser', () => {
  const owner = openOwner({ after })
  let cluster: Awaited<ReturnType<typeof startCluster>>
  let masters: readonly Program[]
  let server: Child
  let url: string
  let open: (url: string, display: Display) => Promise<Opened>
  let kubectl: ReturnType<typeof kubectlFor>

  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
    const { server: apiServer, etcd } = cluster
    const flags = [`--etcd-servers=${etcd.url}`, '--lease-ttl=5s', '--reconcile-interval=2s']
    masters = await Promise.all(
      addresses.map((address) => startMaster(owner, apiServer, { address, flags, host: `m-${address.at(-1)}` })),
    )
    server = await spawnChild(
      owner,
      process.execPath,
      [
        programPath(),
        'masters',
        '--web=127.0.0.1:0',
        `--kubeconfig=${apiServer.kubeconfig}`,
        `--etcd-servers=${etcd.url}`,
      ],
      { env: { HOME: temporaryDirectory(owner, 'home') } },
    )
    const [, page = ''] = await server.output(/page: (\S+)/)
    url = page
    kubectl = kubectlFor(owner, apiServer.kubeconfig)
    mkdirSync(artefacts, { recursive: true })
    open = await startChromium(owner, { online: true })
    await listed(addresses)
  })

  async function listed(expected: readonly string[]): Promise<void> {
    await untilPasses(
      `the addresses ${expected.join()}`,
      async () => assert.deepEqual(listedIn((await readState(cluster.server.api)).endpoints), expected),
      { withinMs },
    )
  }

  async function opened(t: TestContext, display: Display): Promise<Opened> {
    const shown = await open(url, display)
    t.after(() => shown.page.close())
    await shown.page.getByText('the present state, live').waitFor()
    return shown
  }

  /** The rows of a table as texts, the cells with bars between. */
  function rowsOf({ page }: Opened, id: string): Promise<readonly string[]> {
    return page
      .locator(`#${id} tbody tr`)
      .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join(' | ')))
  }

  /** How long it takes until a row matches. */
  async function shows(shown: Opened, id: string, pattern: RegExp): Promise<number> {
    const startMs = performance.now()
    await untilPasses(
      `a row of ${id} that matches ${pattern}`,
      async () => {
        const rows = await rowsOf(shown, id)
        assert.ok(
          rows.some((row) => pattern.test(row)),
          rows.join('\n'),
        )
      },
      { withinMs: seenWithinMs, everyMs: 20 },
    )
    return performance.now() - startMs
  }

  test('the page shows an EndpointSlice that kubectl changed, and its correction', async (t) => {
    const shown = await opened(t, { width: 1440, scheme: 'light' })
    assert.deepEqual(
      (await rowsOf(shown, 'masters')).map((row) =>
        row
          .split(' | ')
          .filter((_, index) => [0, 1, 2, 4].includes(index))
          .join(),
      ),
      addresses.map((address) => `${address},m-${address.at(-1)},ready,yes`),
    )
    const patch = '[{"op":"replace","path":"/endpoints","value":[{"addresses":["198.51.100.9"]}]}]'
    const { code, stderr } = await kubectl('patch', 'endpointslice', 'kubernetes', '--type=json', '-p', patch)
    assert.equal(code, 0, stderr)
    const seenMs = await shows(shown, 'activity', /changed \| EndpointSlice default\/kubernetes: IPv4 198\.51\.100\.9 /)
    const explainedMs = await shows(
      shown,
      'activity',
      /Event \| KubernetesServiceReset EndpointSlice default\/kubernetes: .*kubectl/,
    )
    t.diagnostic(
      `seen ${Math.round(seenMs)} ms and explained ${Math.round(seenMs + explainedMs)} ms after kubectl had ended`,
    )
    await shows(shown, 'objects', /EndpointSlice \| default\/kubernetes \| IPv4 192\.0\.2\.1,192\.0\.2\.2,/)
    assert.deepEqual(shown.messages, [])
    assert.deepEqual([...new Set(shown.requests.map((request) => new URL(request).origin))], [new URL(url).origin])
  })

  test('the page shows the removal of a killed master and its reason', async (t) => {
    const shown = await opened(t, { width: 1440, scheme: 'dark' })
    await masters[1]?.kill()
    const left = addresses.filter((address) => address !== addresses[1])
    await listed(left)
    const seenMs = await shows(
      shown,
      'activity',
      /changed \| Endpoints default\/kubernetes: 192\.0\.2\.1,192\.0\.2\.3,192/,
    )
    const explainedMs = await shows(
      shown,
      'activity',
      /Event \| MasterRemoved .*192\.0\.2\.2 \(m-2\).*its lease has ended/,
    )
    t.diagnostic(
      `seen ${Math.round(seenMs)} ms and explained ${Math.round(seenMs + explainedMs)} ms after the list had changed`,
    )
    await untilPasses(
      'the masters that are listed',
      async () => {
        const rows = await rowsOf(shown, 'masters')
        const isListed = rows.filter((row) => / \| yes \| /.test(row))
        assert.deepEqual(
          isListed.map((row) => row.split(' | ')[0]),
          left,
        )
      },
      { withinMs: seenWithinMs, everyMs: 20 },
    )
    assert.deepEqual(shown.messages, [])
  })

  test('names that contain HTML are shown as text', async (t) => {
    const shown = await opened(t, { width: 1440, scheme: 'light' })
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'hostile' },
      involvedObject: { kind: '<b>Endpoints</b>', namespace: 'default', name: '<img src=x onerror=document.title=1>' },
      reason: '<i>Hostile</i>',
      message: '</td><script>document.title=1</script>',
      type: 'Normal',
      eventTime: new Date().toISOString().replace('Z', '000Z'),
      action: 'a',
      reportingComponent: 'apiserver-bootstrap',
      reportingInstance: 'x',
    }
    const file = join(temporaryDirectory(owner, 'event'), 'event.json')
    writeFileSync(file, JSON.stringify(event))
    const { code, stderr } = await kubectl('create', '-f', file)
    assert.equal(code, 0, stderr)
    await shows(shown, 'activity', /<i>Hostile<\/i> <b>Endpoints<\/b> .*<img src=x onerror=.*<script>/)
    assert.equal(await shown.page.locator('img, i, td b').count(), 0)
    assert.notEqual(await shown.page.title(), '1')
    assert.deepEqual(shown.messages, [])
  })

  test('a page whose server hangs shows that it receives nothing more', async (t) => {
    const shown = await opened(t, { width: 1440, scheme: 'light' })
    process.kill(server.pid, 'SIGSTOP')
    try {
      await shown.page.getByText(/the last state that was received; nothing more for \d+ s/).waitFor()
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
    await shown.page.getByText('the present state, live').waitFor()
  })

  for (const scheme of ['light', 'dark'] as const) {
    test(`in the ${scheme} scheme, also at 360 px, texts have enough contrast, none is cut off, and Tab reaches each table`, async (t) => {
      for (const width of [1440, 360]) {
        const shown = await opened(t, { width, scheme })
        await shown.page.screenshot({ path: join(artefacts, `status-page-${scheme}-${width}.png`), fullPage: true })
        const { faint, checked } = await faintTexts(shown.page)
        assert.ok(checked > 30, String(checked))
        assert.deepEqual(faint, [])
        assert.deepEqual(await clippedTexts(shown.page), [])
        const stops: string[] = []
        for (let presses = 0; presses < 4; presses++) {
          await shown.page.keyboard.press('Tab')
          stops.push(
            await shown.page
              .locator(':focus')
              .evaluate((element) => element.getAttribute('aria-label') ?? element.textContent),
          )
        }
        assert.deepEqual(stops, ['Skip to the masters', 'Masters', 'Objects', 'What happened'])
        await shown.page.waitForTimeout(2500)
        assert.equal(await shown.page.locator(':focus').getAttribute('aria-label'), 'What happened', 'the focus stays')
      }
    })
  }
})
