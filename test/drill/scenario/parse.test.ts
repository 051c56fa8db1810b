import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomScenario } from '../../../src/drill/random/random-scenario.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { renderScenario } from '../../../src/drill/scenario/render.ts'
import { defaultBounds, defaultClients, type Scenario, type Step } from '../../../src/drill/scenario/scenario.ts'
import { actionNames } from '../../../src/drill/scenario/step-schema.ts'

const head = `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
name: mine
description: Something.
`

function parse(rest: string): Scenario {
  return parseScenario(head + rest, 'mine.yaml')
}

/** The steps of a drill with five masters. */
function steps(...lines: readonly string[]): readonly Step[] {
  return parse(`fleet: {masters: 5}\nsteps:\n${lines.map((line) => `  - {${line}}\n`).join('')}`).steps
}

test('omitted keys get their defaults, and the default duration includes time to recover', () => {
  const master = (number: number) => ({
    name: `master-${number}`,
    addresses: [`192.0.2.${number}`],
    kind: 'apiserver-bootstrap',
    skewMs: 0,
    driftPpm: 0,
    settings: {},
  })
  assert.deepEqual(parse('fleet: {masters: 2}\nsteps: [{at: 5s, action: kill, masters: [master-2], for: 30s}]\n'), {
    name: 'mine',
    description: 'Something.',
    fleet: {
      masters: [master(1), master(2)],
      reconciler: 'lease',
      apiserverCount: 2,
      leaseStore: 'etcd',
      leaseTtlMs: 15_000,
      reconcileIntervalMs: 10_000,
      readinessGate: 'continuous',
      onShutdown: 'withdraw',
      spikes: false,
    },
    clients: defaultClients,
    bounds: defaultBounds,
    // 35 s, twice 15 s, 20 s and 10 s.
    durationMs: 95_000,
    steps: [{ atMs: 5000, action: 'kill', masters: ['master-2'], part: 'both', forMs: 30_000 }],
  })
})

test('a master in the list overrides only the keys that it sets', () => {
  const { fleet } = parse(`fleet:
  masters:
    - {}
    - {name: b, addresses: [198.51.100.7, '2001:DB8::7'], skew: -1h, drift: -200, settings: {leaseTtl: 1m, onShutdown: keep}}
    - {kind: kube-apiserver}
steps: []
`)
  assert.deepEqual(
    fleet.masters.map(({ name, addresses, kind }) => [name, addresses.join(), kind]),
    [
      ['master-1', '192.0.2.1', 'apiserver-bootstrap'],
      ['b', '198.51.100.7,2001:db8::7', 'apiserver-bootstrap'],
      ['master-3', '192.0.2.3', 'kube-apiserver'],
    ],
  )
  const { skewMs, driftPpm, settings } = fleet.masters[1] ?? {}
  assert.deepEqual([skewMs, driftPpm, settings], [-3_600_000, -200, { leaseTtlMs: 60_000, onShutdown: 'keep' }])
})

test('steps are sorted by time, and steps of the same time stay in file order', () => {
  const order = steps(
    'at: 9s, action: compact',
    'at: 1s, action: heal',
    'at: 9s, action: heal',
    'at: 0s, action: compact',
  )
  assert.deepEqual(
    order.map(({ atMs, action }) => `${atMs} ${action}`),
    ['0 compact', '1000 heal', '9000 compact', '9000 heal'],
  )
})

const read: readonly (readonly [line: string, step: object])[] = [
  ['action: start, masters: all', { action: 'start', masters: 'all', part: 'both' }],
  ['action: thaw, masters: all, part: server', { action: 'thaw', masters: 'all', part: 'server' }],
  [
    'action: restart, masters: all',
    { action: 'restart', masters: 'all', part: 'both', signal: 'terminate', pauseMs: 1000 },
  ],
  [
    'action: restart, masters: all, overlap: 3s',
    { action: 'restart', masters: 'all', part: 'sidecar', signal: 'terminate', pauseMs: 0, overlapMs: 3000 },
  ],
  ['action: partition, masters: all', { action: 'partition', masters: 'all', from: 'all' }],
  ['action: slow, masters: all, by: 1.5s', { action: 'slow', masters: 'all', from: 'api', byMs: 1500 }],
  ['action: heal', { action: 'heal', masters: 'all' }],
  ['action: reset-connections, masters: all', { action: 'reset-connections', masters: 'all' }],
  ['action: replace, masters: [master-1]', { action: 'replace', masters: ['master-1'], pauseMs: 5000 }],
  ['action: clock-skew, masters: all, by: -1h', { action: 'clock-skew', masters: 'all', byMs: -3_600_000 }],
  ['action: datastore-outage, for: 9s', { action: 'datastore-outage', how: 'away', forMs: 9000 }],
  ['action: apiserver-outage, for: 9s', { action: 'apiserver-outage', masters: 'all', forMs: 9000 }],
  ['action: readyz-fails, masters: all', { action: 'readyz-fails', masters: 'all', how: 'unready' }],
  [
    'action: requests-fail, masters: all, how: status, status: 429, retryAfter: 6s, requests: 1, resource: leases, verb: update',
    {
      ...{ action: 'requests-fail', masters: 'all', how: 'status', status: 429, retryAfterMs: 6000 },
      ...{ requests: 1, resource: 'leases', verb: 'update' },
    },
  ],
  [
    'action: requests-fail, masters: all, how: cut-watches, every: 10s',
    { action: 'requests-fail', masters: 'all', how: 'cut-watches', everyMs: 10_000 },
  ],
  ['action: own-etcd-dead, masters: all', { action: 'own-etcd-dead', masters: 'all', how: 'fails' }],
  ['action: damage, damage: slice-deleted', { action: 'damage', damage: 'slice-deleted' }],
  ['action: rolling-restart', { action: 'rolling-restart', masters: 'all', part: 'both', pauseMs: 5000 }],
  [
    'action: roll-config, settings: {reconcileInterval: 4s, leaseTtl: 6s}',
    { action: 'roll-config', masters: 'all', settings: { leaseTtlMs: 6000, reconcileIntervalMs: 4000 }, pauseMs: 5000 },
  ],
  ['action: scale, to: 7', { action: 'scale', to: 7 }],
  ['action: random, for: 1m', { action: 'random', forMs: 60_000 }],
  ['action: random, for: 1m, seed: 3', { action: 'random', forMs: 60_000, seed: 3 }],
]
for (const [line, step] of read) {
  test(`{${line}} is parsed, with defaults for omitted keys`, () => {
    assert.deepEqual(steps(`at: 5s, ${line}`), [{ atMs: 5000, ...step }])
  })
}

test('steps may name masters that join during the drill', () => {
  const named = steps(
    'at: 1s, action: replace, masters: [master-2]',
    'at: 7s, action: kill, masters: [master-2-anew]',
    'at: 3s, action: scale, to: 7',
    'at: 4s, action: kill, masters: [master-7, master-8]',
  )
  assert.equal(named.length, 4)
  assert.throws(() => steps('at: 3s, action: scale, to: 7', 'at: 4s, action: kill, masters: [master-8]'), /master-8/)
  assert.throws(() => steps('at: 4s, action: kill, masters: [master-2-anew]'), /master-2-anew/)
})

test('masters may share an address that is one of virtualAddresses', () => {
  const { fleet } = parse(`fleet:
  masters:
    - addresses: [192.0.2.100]
    - addresses: [192.0.2.100]
  virtualAddresses: [192.0.2.100]
steps: []
`)
  assert.deepEqual(
    fleet.masters.map(({ addresses }) => addresses),
    [['192.0.2.100'], ['192.0.2.100']],
  )
})

test('a scenario with any action is rendered to a file and parsed back unchanged', () => {
  const seen = new Set<string>()
  for (let seed = 1; seed <= 100; seed++) {
    const scenario = randomScenario(seed)
    for (const { action } of scenario.steps) seen.add(action)
    assert.deepEqual(parseScenario(renderScenario(scenario), `seed ${seed}`), scenario)
  }
  // What random schedules do not contain.
  const rest = parse(`fleet:
  masters: [{addresses: [192.0.2.9]}, {addresses: [192.0.2.9], settings: {leaseTtl: 30s, securePort: 1}}]
  virtualAddresses: [192.0.2.9]
  apiserverCount: 9
clients: {count: 3, interval: 1s}
bounds: {recovery: 1m}
steps:
${read.map(([line]) => `  - {at: 5s, ${line}}`).join('\n')}
`)
  for (const { action } of rest.steps) seen.add(action)
  assert.deepEqual(parseScenario(renderScenario(rest), 'rest'), rest)
  assert.deepEqual(
    actionNames.filter((name) => !seen.has(name)),
    [],
  )
})
