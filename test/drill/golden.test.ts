import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { renderTranscript } from '../../src/drill/report/transcript.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import { parseScenario } from '../../src/drill/scenario/parse.ts'

// The events of these scenarios in the simulator. After an intended change, run `UPDATE_GOLDEN=1 node scripts/test.ts
// unit test/drill/golden.test.ts` and review the difference.
const update = process.env.UPDATE_GOLDEN === '1'

for (const name of ['crash', 'graceful', 'shared-vip', 'damage']) {
  test(`the transcript of ${name} equals its golden file`, async () => {
    const file = new URL(`../../config/drills/${name}.yaml`, import.meta.url)
    const golden = new URL(`golden/${name}.txt`, import.meta.url)
    const scenario = parseScenario(await readFile(file, 'utf8'), `${name}.yaml`)
    const report = await runDrill(scenario)
    const run = report.variants[0]?.runs[0]
    const transcript = run === undefined ? '' : renderTranscript(run)
    if (update) await writeFile(golden, transcript)
    assert.equal(transcript, await readFile(golden, 'utf8'))
    assert.ok(transcript.length > 0)
  })
}
