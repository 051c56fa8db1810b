import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findingsOf } from '../../../src/verify/cluster/verify-cluster.ts'
import { kubernetesDamages } from './damage.ts'
import { bootstrapped, execute, failedIn } from './world.ts'

test('on a server that was bootstrapped in the process everything holds', async () => {
  const { verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })
  const report = await verify()
  assert.deepEqual(
    report.results.filter(({ status }) => status !== 'held'),
    [],
  )
  assert.ok(report.holds)
})

for (const { name, check, inflict } of kubernetesDamages) {
  test(`${check} alone finds that ${name}, and its commands correct it`, async () => {
    const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })
    await inflict(api)
    const report = await verify()
    assert.deepEqual(failedIn(report), [check], JSON.stringify(findingsOf(report)))
    const remedies = new Set(findingsOf(report).map(({ remedy }) => JSON.stringify(remedy)))
    for (const remedy of remedies) for (const command of JSON.parse(remedy)) await execute(api, command)
    assert.deepEqual(findingsOf(await verify()), [])
  })
}
