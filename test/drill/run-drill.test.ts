import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parseScenario } from '../../src/drill/parse-scenario.ts'
import { runDrill } from '../../src/drill/run-drill.ts'

const crash = parseScenario(readFileSync('config/drills/crash.yaml', 'utf8'), 'crash.yaml')

test('a drill of no runs, or from no seed, is refused before anything runs', async () => {
  for (const runs of [0, -1, 1.5, Number.NaN])
    await assert.rejects(runDrill(crash, { runs }), { name: 'RangeError', message: /^runs must be/ })
  for (const seed of [-1, 0.5, Number.NaN])
    await assert.rejects(runDrill(crash, { seed }), { name: 'RangeError', message: /^a seed must be/ })
  await assert.rejects(runDrill(crash, { variants: [] }), { name: 'RangeError', message: /^there must be a variant/ })
})

test('what kube-apiservers write as the last of them comes up is not held against them', async () => {
  const variants = [{ name: 'kube-apiserver', fleet: {}, kubeApiservers: true }]
  const { held } = await runDrill(crash, { seed: 64, variants })
  assert.equal(held, true)
})
