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
/** By then the history of the embedded API server, which is bounded, is full. */
const warmMinutes = Math.ceil(minutes / 3)
const mayGrowMib = 10

test(`a page that is open for ${minutes} minutes of damage costs the process nothing that grows`, async (t) => {
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
  const { page, heard } = await open(url, { width: 1440, scheme: 'light' })
  await page.getByText('the present state, live').waitFor()
  const samples: number[] = []
  for (let minute = 0; minute < minutes; minute++) {
    for (let second = 0; second < 60; second++) {
      const name = 'kubernetes'
      const namespace = 'default'
      if (second % 2 === 0) await slices.deleteNamespacedEndpointSlice({ namespace, name }).catch(() => {})
      else await core.deleteNamespacedEndpoints({ namespace, name }).catch(() => {})
      await sleep(1000)
    }
    samples.push(residentMib(child.pid))
  }
  const warm = Math.max(...samples.slice(0, warmMinutes))
  const last = Math.max(...samples.slice(-warmMinutes))
  t.diagnostic(`resident at most ${Math.round(warm)} MiB in the first third, ${Math.round(last)} MiB in the last`)
  t.diagnostic(samples.map(Math.round).join(' '))
  assert.ok(last < warm + mayGrowMib, `${last} MiB, ${warm} before`)
  assert.deepEqual(heard, [])
  const shown = await page.locator('#happenings tbody tr').count()
  assert.equal(shown, 200)
})
