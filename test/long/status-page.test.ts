import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CoreV1Api, DiscoveryV1Api, KubeConfig } from '@kubernetes/client-node'
import { residentMib } from '../peers/footprint.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { startChromium } from '../real/drill-page/chromium.ts'
import { spawnChild } from '../support/spawn-child.ts'

const minutes = Number(process.env.PAGE_MINUTES ?? 60)
/** More changes than the embedded API server stores for one kind: from then on its history does not grow. */
const warmChanges = 2_500
const third = Math.ceil(minutes / 3)
const mayGrowMib = 10

test(`the memory of the process does not grow while the status page is open for ${minutes} minutes of damage`, async (t) => {
  const owner = openOwner(t)
  const child = await spawnChild(owner, process.execPath, [programPath(), 'run', '--embedded'], {
    env: { HOME: temporaryDirectory(owner, 'home') },
  })
  const [, url = ''] = await child.output(/Live page: (http:\/\/[\d.:]+\/)/)
  const [, kubeconfig = ''] = await child.output(/export KUBECONFIG=(.+)/)
  const config = new KubeConfig()
  config.loadFromFile(kubeconfig)
  const [slices, core] = [config.makeApiClient(DiscoveryV1Api), config.makeApiClient(CoreV1Api)]
  const open = await startChromium(owner, { online: true })
  const { page, messages } = await open(url, { width: 1440, scheme: 'light' })
  await page.getByText('the present state, live').waitFor()
  const damage = async (count: number, pauseMs: number): Promise<void> => {
    const ref = { namespace: 'default', name: 'kubernetes' }
    for (let index = 0; index < count; index++) {
      if (index % 2 === 0) await slices.deleteNamespacedEndpointSlice(ref).catch(() => {})
      else await core.deleteNamespacedEndpoints(ref).catch(() => {})
      await sleep(pauseMs)
    }
  }
  await damage(warmChanges, 20)
  const samples: number[] = []
  for (let minute = 0; minute < minutes; minute++) {
    await damage(60, 1_000)
    samples.push(residentMib(child.pid))
  }
  const warm = Math.max(...samples.slice(0, third))
  const last = Math.max(...samples.slice(-third))
  t.diagnostic(`resident at most ${Math.round(warm)} MiB in the first third, ${Math.round(last)} MiB in the last`)
  t.diagnostic(samples.map(Math.round).join(' '))
  assert.ok(last < warm + mayGrowMib, `${last} MiB, ${warm} before`)
  assert.deepEqual(messages, [])
  const shown = await page.locator('#activity tbody tr').count()
  assert.equal(shown, 200)
})
