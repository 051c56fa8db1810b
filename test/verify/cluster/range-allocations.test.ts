import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { shellLine, type Verdict } from '../../../src/verify/cluster/finding.ts'
import {
  judgeFreeNodePorts,
  judgeRangeAllocations,
  nodePortRepair,
} from '../../../src/verify/cluster/range-allocations.ts'
import type { CheckContext, StoredBitmap } from '../../../src/verify/cluster/state.ts'

const absent = { type: 'absent' } as const

function stored(range: string, ...offsets: readonly number[]): StoredBitmap['stored'] {
  const value = offsets.reduce((bits, offset) => bits | (1n << BigInt(offset)), 0n).toString(16)
  const data = Buffer.from(value.length % 2 === 0 ? value : `0${value}`, 'hex')
  return { type: 'range', range, data, revision: '1', version: undefined }
}

const service = (name: string, spec: object) => ({ metadata: { namespace: 'default', name }, spec }) as never
const services = [
  service('kubernetes', { clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'] }),
  service('web', {
    clusterIP: '10.96.0.3',
    clusterIPs: ['10.96.0.3', 'fd00::3'],
    ports: [{ nodePort: 30_002, protocol: 'TCP' }],
  }),
]
const notServed = { ipAddresses: { type: 'unread', reason: 'no such kind', isServed: false } } as const

function judge(
  ranges: Partial<Record<StoredBitmap['name'], StoredBitmap['stored']>>,
  context: Partial<CheckContext> = {},
): Verdict {
  const names = ['serviceips', 'secondaryserviceips', 'servicenodeports'] as const
  const rangeAllocations = names.map((name) => ({
    name,
    where: `/registry/ranges/${name} in etcd`,
    stored: ranges[name] ?? absent,
  }))
  return judgeRangeAllocations({ services, rangeAllocations }, { state: {}, expect: {}, nowMs: 0, ...context })
}

function findings(verdict: Verdict): readonly (readonly string[])[] {
  assert.ok(verdict.status === 'failed', JSON.stringify(verdict))
  const flags = { kubectl: [], 'apiserver-bootstrap': [] }
  return verdict.findings.map(({ object, expected, found, remedy }) => [
    object,
    expected,
    found,
    shellLine(remedy, flags),
  ])
}

test('bitmaps equal to the usage by Services hold; ClusterIP bitmaps are checked only if IPAddresses are not served', () => {
  const right = {
    serviceips: stored('10.96.0.0/24', 0, 2),
    secondaryserviceips: stored('fd00::/120', 2),
    servicenodeports: stored('30000-32767', 2),
  }
  assert.deepEqual(judge(right, { state: notServed }), {
    status: 'held',
    found: 'serviceips, secondaryserviceips, servicenodeports',
  })
  const old = { ...right, serviceips: stored('10.96.0.0/24') }
  assert.deepEqual(judge(old), { status: 'held', found: 'servicenodeports' })
  assert.equal(judge(old, { state: notServed }).status, 'failed')
})

test('a number used but not allocated is reported with its Service, one only allocated as free', () => {
  const wrong = { serviceips: stored('10.96.0.0/24', 0, 5), servicenodeports: stored('30000-32767', 0) }
  const run = 'apiserver-bootstrap run --endpoint-reconciler-type=none'
  const ips = `${run} --controllers=cluster-ip-repair --health-bind-address=127.0.0.1:0 --service-cluster-ip-range=10.96.0.0/24`
  const ports = `${run} --controllers=node-port-repair --health-bind-address=127.0.0.1:0 --service-node-port-range=30000-32767`
  assert.deepEqual(findings(judge(wrong, { state: notServed })), [
    ['ClusterIP 10.96.0.3', 'allocated, as Service default/web uses it', 'not allocated', ips],
    ['ClusterIP 10.96.0.6', 'free, as no Service uses it', 'allocated', `${ips} --repair-interval=1m`],
    ['NodePort 30002', 'allocated, as Service default/web uses it', 'not allocated', ports],
    ['NodePort 30000', 'free, as no Service uses it', 'allocated', `${ports} --repair-interval=1m`],
  ])
})

test('a stored range that differs from the expected one or is invalid gives one finding', () => {
  const expect = { serviceClusterIpRange: [parseCidr('10.96.0.0/16')] }
  const other = judge({ serviceips: stored('10.96.0.0/24', 0, 2) }, { state: notServed, expect })
  const [[object, expected, found, repair] = []] = findings(other)
  assert.deepEqual(
    [object, expected, found],
    ['/registry/ranges/serviceips in etcd', 'is of 10.96.0.0/16', 'is of 10.96.0.0/24'],
  )
  assert.match(repair ?? '', /--service-cluster-ip-range=10\.96\.0\.0\/16 --adopt-range$/)
  const mistyped = { serviceClusterIpRange: [parseCidr('10.80.0.0/16')] }
  const [[, , , comment] = []] = findings(
    judge({ serviceips: stored('10.96.0.0/24', 0, 2) }, { state: notServed, expect: mistyped }),
  )
  assert.match(comment ?? '', /^# check --service-cluster-ip-range first/)
  const bitmaps = [
    [stored('nonsense', 2), 'has no valid range'],
    [{ type: 'unreadable', reason: 'is empty' }, 'is empty'],
  ] as const
  for (const [bad, reason] of bitmaps) {
    const [[, wanted, found, advice] = []] = findings(judge({ servicenodeports: bad }))
    assert.equal(wanted, 'a RangeAllocation')
    assert.equal(found, `/registry/ranges/servicenodeports in etcd ${reason}`)
    assert.match(advice ?? '', /^# save and delete the key/)
  }
})

test('a bitmap that the repair leaves alone is to be created again', () => {
  const fixed = { ...stored('30000-32767', 0), fixed: 'is JSON' } as StoredBitmap['stored']
  const expect = { serviceNodePortRange: parsePortRange('30000-30999') }
  const verdicts = [judge({ servicenodeports: fixed }), judge({ servicenodeports: fixed }, { expect })]
  for (const [, , , advice] of verdicts.flatMap(findings)) assert.match(advice ?? '', /^# save and delete the key/)
})

test('a server without NodePorts is repaired by the program, unless that leaves the bitmap alone', () => {
  const context = { state: {}, expect: {}, nowMs: 0 }
  const repair = (...bitmaps: readonly StoredBitmap['stored'][]): string => {
    const all = bitmaps.map((stored) => ({ name: 'servicenodeports', where: 'KEY', stored }) as const)
    return shellLine(nodePortRepair(all, context), { kubectl: [], 'apiserver-bootstrap': [] })
  }
  assert.match(repair(), /^apiserver-bootstrap run /)
  assert.match(repair(absent), /^apiserver-bootstrap run /)
  assert.match(repair(stored('30000-30001')), /^apiserver-bootstrap run .*--service-node-port-range=30000-30001$/)
  assert.match(repair({ type: 'unreadable', reason: 'is empty' }), /^# save and delete the key KEY/)
})

test('without any bitmap the check is skipped, with the place of the missing one as reason', () => {
  const verdict = judge({})
  assert.match(verdict.status === 'skipped' ? verdict.reason : '', /no \/registry\/ranges\/servicenodeports in etcd/)
})

test('a full bitmap of NodePorts fails the check for free NodePorts', () => {
  const context = { state: {}, expect: {}, nowMs: 0 }
  const free = (stored: StoredBitmap['stored']) =>
    judgeFreeNodePorts([{ name: 'servicenodeports', where: 'etcd', stored }], context)
  assert.deepEqual(free(stored('30000-30001', 0)), {
    status: 'held',
    found: '1 of 2 NodePorts in 30000-30001 are free',
  })
  assert.equal(free(stored('30000-30001', 0, 1))?.status, 'failed')
  assert.equal(free(absent), undefined)
  for (const bad of [stored('nonsense', 2), { type: 'unreadable', reason: 'is empty' } as const]) {
    assert.equal(free(bad)?.status, 'skipped')
  }
})
