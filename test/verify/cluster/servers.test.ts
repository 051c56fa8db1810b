import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServerAnswer, ServerProbe } from '../../../src/kube/http-probe.ts'
import { leases } from '../../../src/kube/resources.ts'
import type { HostPort } from '../../../src/net/host-port.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import { failedIn } from '../../../src/verify/cluster/verify-cluster.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped, type World } from './world.ts'

const flags = { kubectl: [], 'apiserver-bootstrap': [] }
const healthy: ServerAnswer = {
  type: 'answer',
  status: 200,
  failing: [],
  certificate: { fault: undefined, names: ['192.0.2.1'] },
  clock: { offsetMs: 300, toleranceMs: 600 },
}

/** Two masters. The second one answers with `second`. */
async function probing(second: Partial<ServerAnswer>) {
  const world = await bootstrapped({ advertiseAddress: '192.0.2.1' }, { advertiseAddress: '192.0.2.2' })
  const asked: Parameters<ServerProbe>[0][] = []
  const ask: ServerProbe = async (target) => {
    asked.push(target)
    return target.host === '192.0.2.1' ? healthy : ({ ...healthy, ...second } as ServerAnswer)
  }
  const targets: ReadonlyMap<string, HostPort> = new Map([['192.0.2.2', { host: '127.0.0.1', port: 7443 }]])
  const source = { api: world.api, probe: { ask, targets } }
  return {
    ...world,
    asked,
    verify: (options: Parameters<World['verify']>[0] = {}) => world.verify({ source, ...options }),
  }
}

test('each listed address is probed once, at its mapped target, with the names that clients use', async () => {
  const { asked, verify } = await probing({})
  const report = await verify()
  assert.deepEqual(failedIn(report), [])
  assert.deepEqual(asked, [
    { host: '192.0.2.1', port: 6443, names: ['192.0.2.1', '10.0.0.1', 'kubernetes.default.svc'] },
    { host: '127.0.0.1', port: 7443, names: ['192.0.2.2', '10.0.0.1', 'kubernetes.default.svc'] },
  ])
  const held = ['server-answers', 'server-certificate', 'server-ready', 'clock-skew']
  assert.deepEqual(
    report.results.filter(({ id }) => held.includes(id)).map(({ status }) => status),
    ['held', 'held', 'held', 'held'],
  )
})

test('with --probe the skip reason does not request --probe, and a mapping of an unlisted address is reported', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const ask: ServerProbe = async () => ({ type: 'none', reason: 'refused' })
  const unlisted: string[] = []
  const target = { host: '127.0.0.1', port: 7443 }
  const targets = new Map([
    ['192.0.2.1', target],
    ['192.0.2.7', target],
  ])
  const probe = { ask, targets, onUnlisted: (address: string) => void unlisted.push(address) }
  const source = { api, probe, leaseNamespace: 'nowhere' }
  const [result] = (await verify({ source, only: ['clock-skew'] })).results
  assert.equal(
    result?.status === 'skipped' && result.reason,
    'the time of the API servers is unknown: no API server answered with its time',
  )
  assert.deepEqual(unlisted, ['192.0.2.7'])
})

test('a finding shows the dialled address if it differs, even if it begins with the listed one', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const ask: ServerProbe = async () => ({ type: 'none', reason: 'refused' })
  const objects = async (host: string): Promise<readonly string[]> => {
    const targets = new Map([['192.0.2.1', { host, port: 6443 }]])
    return findingsOf(await verify({ source: { api, probe: { ask, targets } }, only: ['server-answers'] })).map(
      ({ object }) => object,
    )
  }
  assert.deepEqual(await objects('192.0.2.10'), ['API server 192.0.2.1 at 192.0.2.10:6443'])
  assert.deepEqual(await objects('192.0.2.1'), ['API server 192.0.2.1:6443'])
})

test('without --probe no server is dialled', async () => {
  const { asked, api, verify } = await probing({})
  await verify({ source: { api } })
  assert.deepEqual(asked, [])
  const [named] = (await verify({ source: { api }, only: ['server-answers'] })).results
  assert.deepEqual(named?.status === 'skipped' && named.reason, 'give --probe')
})

for (const [name, second, check, expected, repair] of [
  [
    'does not answer',
    { type: 'none', reason: '127.0.0.1:7443: connection refused' },
    'server-answers',
    ['API server 192.0.2.2 at 127.0.0.1:7443', '127.0.0.1:7443: connection refused'],
    /^apiserver-bootstrap masters evict 192\.0\.2\.2 --yes && kubectl patch endpoints .*192\.0\.2\.1/,
  ],
  [
    'has a certificate for another name',
    { certificate: { fault: 'is for another name', names: ['127.0.0.1', 'localhost'] } },
    'server-certificate',
    ['API server 192.0.2.2 at 127.0.0.1:7443', 'its certificate is for another name; it is for 127.0.0.1, localhost'],
    /^# give the API server at 192\.0\.2\.2 a certificate for 192\.0\.2\.2, or for 10\.0\.0\.1, or for kubernetes/,
  ],
  [
    'is not ready',
    { status: 500, failing: ['etcd'] },
    'server-ready',
    ['API server 192.0.2.2 at 127.0.0.1:7443', 'HTTP status 500: etcd failed'],
    /^# see \/readyz\?verbose/,
  ],
  [
    'has a clock that is behind',
    { clock: { offsetMs: -31_000, toleranceMs: 700 } },
    'clock-skew',
    ['API server 192.0.2.2 at 127.0.0.1:7443', '30s behind'],
    /^# synchronise the clock/,
  ],
] as const) {
  test(`a server that ${name} fails ${check} alone`, async () => {
    const { verify } = await probing(second as Partial<ServerAnswer>)
    const report = await verify()
    assert.deepEqual(failedIn(report), [check])
    const [finding] = findingsOf(report)
    assert.deepEqual([finding?.object, finding?.found], expected)
    assert.match(shellLine(finding?.remedy ?? [], flags), repair)
  })
}

test('a server that hides /readyz without credentials is skipped by server-ready', async () => {
  const { verify } = await probing({ status: 401 })
  const { results, holds } = await verify()
  const ready = results.find(({ id }) => id === 'server-ready')
  assert.ok(holds)
  assert.match(ready?.status === 'skipped' ? ready.reason : '', /^API server 192\.0\.2\.2 .* HTTP status 401/)
})

test('the only listed address is not evicted', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const ask: ServerProbe = async () => ({ type: 'none', reason: '192.0.2.1:6443: connection refused' })
  const [finding] = findingsOf(await verify({ source: { api, probe: { ask, targets: new Map() } } }))
  assert.equal(shellLine(finding?.remedy ?? [], flags), '# start the API server at 192.0.2.1, port 6443')
})

test('no repair lists a server that does not answer', async () => {
  const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const { api, verify } = await bootstrapped(...addresses.map((advertiseAddress) => ({ advertiseAddress })))
  const repairs = async (silent: readonly string[]): Promise<readonly string[]> => {
    const ask: ServerProbe = async ({ host }) =>
      silent.includes(host) ? { type: 'none', reason: 'connection refused' } : healthy
    const source = { api, probe: { ask, targets: new Map() } }
    return findingsOf(await verify({ source, only: ['server-answers'] })).map(({ remedy }) => shellLine(remedy, flags))
  }
  const two = await repairs(['192.0.2.1', '192.0.2.3'])
  assert.equal(two.length, 2)
  for (const line of two) {
    const [first = '', second = '', ...patches] = line.split(' && ')
    // If one of them renews its lease after all, the eviction stops the command line.
    assert.deepEqual([first, second].sort(), [
      'apiserver-bootstrap masters evict 192.0.2.1 --yes',
      'apiserver-bootstrap masters evict 192.0.2.3 --yes',
    ])
    assert.match(patches.join(), /192\.0\.2\.2/)
    assert.doesNotMatch(patches.join(), /192\.0\.2\.[13]/)
  }
  for (const line of await repairs(addresses)) assert.match(line, /^# start the API server at /)
})

test('the median of the clocks counts as right, because the clock of this machine may be wrong', async () => {
  const world = await bootstrapped(
    { advertiseAddress: '192.0.2.1' },
    { advertiseAddress: '192.0.2.2' },
    { advertiseAddress: '192.0.2.3' },
  )
  const offsets: Readonly<Record<string, number>> = { '192.0.2.1': 60_000, '192.0.2.2': 61_000, '192.0.2.3': 62_000 }
  const verify = async (clocks = offsets) => {
    const ask: ServerProbe = async ({ host }) => ({
      ...healthy,
      clock: { offsetMs: clocks[host] ?? 0, toleranceMs: 600 },
    })
    const source = { api: world.api, probe: { ask, targets: new Map() } }
    const report = await world.verify({ source, only: ['clock-skew'] })
    const [result] = report.results
    return result?.status === 'failed' ? result.findings.map(({ object }) => object) : result
  }
  const all = await verify()
  assert.match(JSON.stringify(all), /the clock of this machine differs from them by 60s/)
  const one = await verify({ '192.0.2.2': 300, '192.0.2.3': -40_000 })
  assert.deepEqual(one, ['API server 192.0.2.3:6443'])
  // Two clocks against two: the clock of this machine decides.
  const two = await verify({ ...offsets, '192.0.2.3': 0 })
  assert.deepEqual(two, ['API server 192.0.2.1:6443', 'API server 192.0.2.2:6443'])
})

test('a Lease renewed in the future is reported by clock-skew', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { items } = await api.list(leases, { namespace: 'kube-system' })
  const [lease] = items.filter(({ metadata }) => metadata?.labels?.['apiserver-bootstrap/lease'] === 'master')
  const later = new Date(Date.parse(lease?.spec?.renewTime ?? '') + 60_000).toISOString().replace('Z', '000Z')
  const ref = { namespace: 'kube-system', name: lease?.metadata?.name ?? '' }
  await api.patch(leases, ref, { type: 'merge', body: { spec: { renewTime: later } } })
  const report = await verify()
  assert.deepEqual(failedIn(report), ['clock-skew'])
  assert.match(findingsOf(report)[0]?.object ?? '', /^the renewal of Lease kube-system\//)
})
