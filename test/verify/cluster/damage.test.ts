import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCidr } from '../../../src/net/cidr.ts'
import type { CheckId } from '../../../src/verify/cluster/check-ids.ts'
import { failedIn } from '../../../src/verify/cluster/verify-cluster.ts'
import { damages } from './damage.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const leases = ['master-leases'] as const satisfies readonly CheckId[]
const start = () => bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })

test('all checks hold on a freshly bootstrapped in-process server', async () => {
  const { verify } = await start()
  const report = await verify()
  assert.deepEqual(
    report.results.filter(({ status }) => status !== 'held'),
    [],
  )
  assert.ok(report.holds)
})

for (const { name, check, inflict, visibleAfterMs = 0, expectsRange, isSlow } of damages) {
  test(`only ${check} reports that ${name}, and the printed commands correct it`, async () => {
    const { api, etcd, time, verify, execute } = await start()
    await inflict(api, etcd.kv)
    await time.advance(visibleAfterMs)
    const expect = expectsRange ? { serviceClusterIpRange: [parseCidr('10.0.0.0/24')] } : {}
    // Nobody renews the leases, which end after 15 s.
    const isLater = visibleAfterMs > 10_000
    const report = await verify({ expect, skip: isLater ? leases : [] })
    assert.deepEqual(failedIn(report), [check], JSON.stringify(findingsOf(report)))
    const remedies = new Set(findingsOf(report).map(({ remedy }) => JSON.stringify(remedy)))
    for (const remedy of remedies) for (const command of JSON.parse(remedy)) await execute(command)
    assert.deepEqual(findingsOf(await verify({ skip: isLater || isSlow ? leases : [] })), [])
  })
}
