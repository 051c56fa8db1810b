import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDocumentation, liveFaults } from '../../../src/drill/live/cluster.ts'
import { builtInScenarios, loadScenario } from '../../../src/drill/scenario/load-scenario.ts'
import type { Scenario, Step } from '../../../src/drill/scenario/scenario.ts'

const doable = [
  'crash',
  'graceful',
  'freeze',
  'partition',
  'rolling-restart',
  'shared-vip',
  'sidecar-restart',
  'datastore-outage',
  'own-etcd-dead',
  'unauthorized',
]

test('liveFaults accepts the built-in scenarios that real processes support', async () => {
  const scenarios = (await builtInScenarios()).filter(({ name }) => doable.includes(name))
  assert.equal(scenarios.length, doable.length)
  for (const scenario of scenarios) assert.deepEqual(liveFaults(scenario), [], scenario.name)
})

test('liveFaults reports everything that real processes do not support, each in one line', async () => {
  const crash = await loadScenario('crash')
  const [first, ...others] = crash.fleet.masters
  assert.ok(first)
  const steps: readonly Step[] = [
    { atMs: 0, action: 'clock-skew', masters: 'all', byMs: 1 },
    { atMs: 0, action: 'compact' },
    { atMs: 0, action: 'random', forMs: 1 },
    { atMs: 0, action: 'datastore-outage', how: 'full', forMs: 1 },
  ]
  const masters = [{ ...first, skewMs: 1 }, { ...first, name: 'real', addresses: ['10.0.0.1'] }, ...others]
  const scenario: Scenario = { ...crash, steps, fleet: { ...crash.fleet, masters, leaseStore: 'memory' } }
  const faults = liveFaults(scenario)
  assert.equal(faults.length, 7)
  for (const fault of faults) assert.doesNotMatch(fault, /\n/)
  assert.match(faults.join(' '), /memory.*clock.*10\.0\.0\.1.*clock-skew.*compact.*random.*full/)
})

test('readyz-fails is refused for a real kube-apiserver, and accepted for the other masters', async () => {
  const mixed = await loadScenario('mixed-fleet')
  const upstream = mixed.fleet.masters.find(({ kind }) => kind === 'kube-apiserver')?.name ?? assert.fail()
  const ours = mixed.fleet.masters.find(({ kind }) => kind !== 'kube-apiserver')?.name ?? assert.fail()
  const failing = (masters: readonly string[] | 'all'): Scenario => ({
    ...mixed,
    steps: [{ atMs: 0, action: 'readyz-fails', masters, how: 'unready' }],
  })
  assert.deepEqual(liveFaults(failing([ours])), [])
  const refused = [`steps: readyz-fails cannot change the answers of ${upstream}, a real kube-apiserver`]
  assert.deepEqual(liveFaults(failing([ours, upstream])), refused)
  assert.deepEqual(liveFaults(failing('all')), refused)
})

test('readyz-fails is refused for a kube-apiserver that a step adds', async () => {
  const mixed = await loadScenario('mixed-fleet')
  const upstream = mixed.fleet.masters.find(({ kind }) => kind === 'kube-apiserver') ?? assert.fail()
  const scenario: Scenario = {
    ...mixed,
    fleet: { ...mixed.fleet, masters: [upstream, ...mixed.fleet.masters.filter((one) => one !== upstream)] },
    steps: [
      { atMs: 0, action: 'scale', to: mixed.fleet.masters.length + 1 },
      { atMs: 1, action: 'readyz-fails', masters: [`master-${mixed.fleet.masters.length + 1}`], how: 'unready' },
    ],
  }
  assert.deepEqual(liveFaults(scenario), [
    `steps: readyz-fails cannot change the answers of master-${mixed.fleet.masters.length + 1}, a real kube-apiserver`,
  ])
})

test('an address that a step gives to a master must be a documentation address too', async () => {
  const crash = await loadScenario('crash')
  const roll = (addresses: readonly string[]): Scenario => ({
    ...crash,
    steps: [{ atMs: 0, action: 'roll-config', masters: ['master-1'], settings: { addresses }, pauseMs: 0 }],
  })
  assert.deepEqual(liveFaults(roll(['192.0.2.9', '2001:db8::9'])), [])
  const faults = liveFaults(roll(['192.0.2.9', 'fd00::9']))
  assert.match(faults.join('\n'), /^steps: roll-config: fd00::9 is not a documentation address \(.*$/)
})

test('only addresses in the documentation ranges are documentation addresses', () => {
  for (const address of ['192.0.2.1', '198.51.100.255', '203.0.113.9', '2001:db8::1', '2001:DB8:1::']) {
    assert.ok(isDocumentation(address), address)
  }
  for (const address of ['192.0.3.1', '10.0.0.1', '127.0.0.1', '2001:db80::1', '2001:dba::1', 'fe80::1']) {
    assert.ok(!isDocumentation(address), address)
  }
})
