import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../../src/kube/errors.ts'
import { endpointSlices } from '../../../src/kube/resources.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import type { Expectations } from '../../../src/verify/cluster/state.ts'
import type { CheckResult } from '../../../src/verify/cluster/verify-cluster.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { addSecondHost, withTwoMasters } from './damage.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped, type World } from './world.ts'

const second = { namespace: 'default', name: 'kubernetes-ipv6' } as const
const LIMIT = { timeout: 60_000 }

function dualStack(): Promise<World> {
  const serviceClusterIpRange = '10.0.0.0/24,fd00::/112'
  return bootstrapped(
    { advertiseAddress: '192.0.2.1,2001:db8::1', serviceClusterIpRange },
    { advertiseAddress: '192.0.2.2,2001:db8::2', serviceClusterIpRange },
  )
}

/** The result of the check of the expected masters. */
async function expected({ verify }: World, expect: Expectations, api?: World['api']): Promise<CheckResult> {
  const [result] = (await verify({ only: ['expected-masters'], expect, ...(api && { source: { api } }) })).results
  return result ?? assert.fail('not checked')
}

function findings(result: CheckResult): readonly (readonly string[])[] {
  assert.ok(result.status === 'failed', result.status)
  return result.findings.map(({ object, expected, found }) => [object, expected, found])
}

const both = ['192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2']

test('expected addresses of both families must be in the Endpoints and in the second slice', LIMIT, async () => {
  const world = await dualStack()
  const held = await expected(world, { addresses: both, masters: 2 })
  assert.deepEqual([held.status, held.status === 'held' && held.found], ['held', both.join(', ')])
  const turned = await expected(world, { addresses: both.toReversed() })
  assert.equal(turned.status, 'held', 'the Endpoints say which family is the first, not the order of what is expected')
  const slice = await world.api.get(endpointSlices, second)
  const [first] = slice.endpoints ?? []
  assert.ok(first !== undefined)
  const wrong = { ...first, addresses: ['2001:db8::9'] }
  await world.api.update(endpointSlices, { ...slice, endpoints: [first, wrong] })
  const failed = await expected(world, { addresses: both })
  const found = 'lists 2001:db8::1, 2001:db8::9'
  assert.deepEqual(findings(failed), [
    ['EndpointSlice default/kubernetes-ipv6', 'lists 2001:db8::2', found],
    ['EndpointSlice default/kubernetes-ipv6', 'does not list 2001:db8::9', found],
  ])
  const flags = { kubectl: [], 'apiserver-bootstrap': [] }
  const [missing, unknown] = failed.status === 'failed' ? failed.findings : []
  assert.match(shellLine(missing?.remedy ?? [], flags), /^# on the master that should be listed: .*2001:db8::2\?/)
  assert.match(shellLine(unknown?.remedy ?? [], flags), /^# if a master advertises 2001:db8::9, .*; otherwise delete /)
})

test('expected addresses of one family do not restrict the second slice', LIMIT, async () => {
  const world = await dualStack()
  assert.equal((await expected(world, { addresses: ['192.0.2.1', '192.0.2.2'] })).status, 'held')
  assert.deepEqual(
    findings(await expected(world, { addresses: ['192.0.2.1', '192.0.2.3'] })).map(([, text]) => text),
    ['lists 192.0.2.3', 'does not list 192.0.2.2'],
  )
})

test('expected addresses of a second family without a slice are reported as missing', LIMIT, async () => {
  const world = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  assert.deepEqual(findings(await expected(world, { addresses: ['192.0.2.1', '2001:db8::1'] })), [
    ['EndpointSlice default/kubernetes-ipv6', 'lists 2001:db8::1', 'lists nobody'],
  ])
})

test('the second family cannot be checked while the slices are unreadable, the Endpoints can', LIMIT, async () => {
  const world = await dualStack()
  const list: World['api']['list'] = async (resource, query) => {
    if (resource.plural === endpointSlices.plural) throw new KubeError('Forbidden', 'list endpointslices: forbidden')
    return world.api.list(resource, query)
  }
  const api = passedOn(world.api, { list })
  assert.equal((await expected(world, { addresses: ['192.0.2.1', '192.0.2.2'] }, api)).status, 'held')
  const undecided = await expected(world, { addresses: both }, api)
  assert.deepEqual(undecided.status === 'skipped' && undecided.reason, 'list endpointslices: forbidden')
})

test('for the last master no eviction is printed, because it would be refused', LIMIT, async () => {
  const { time, verify, api } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const repairs = async (options: Parameters<typeof verify>[0]) =>
    findingsOf(await verify(options)).map(({ remedy }) => shellLine(remedy, { kubectl: [], 'apiserver-bootstrap': [] }))
  const start = '# first start the sidecar of a master that should be listed: 192.0.2.1 is the last one'
  const expect = { addresses: ['192.0.2.2'] }
  assert.ok((await repairs({ expect, only: ['expected-masters'] })).some((line) => line.startsWith(start)))
  await time.advance(60_000)
  const only = ['master-leases'] as const
  assert.deepEqual(await repairs({ only }), [
    '# start the sidecar of 192.0.2.1, which is the last master; if its leases are in etcd, verify again with --etcd-servers',
  ])
  await withTwoMasters(api)
  const both = await repairs({ only })
  assert.equal(both.length, 2)
  assert.ok(both.every((line) => line.startsWith('apiserver-bootstrap masters evict ')))
})

test(
  'of two hosts with one address the one that renewed last keeps its Lease, whatever their TTLs',
  LIMIT,
  async () => {
    const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })
    await addSecondHost(api, { earlierMs: 30_000, leaseDurationSeconds: 60 })
    const [result] = (await verify({ only: ['shared-addresses'] })).results
    assert.ok(result?.status === 'failed')
    assert.deepEqual(
      result.findings[0]?.remedy.map(({ args }) => args.slice(0, 3)),
      [['delete', 'leases', 'apiserver-bootstrap-copy']],
    )
  },
)
