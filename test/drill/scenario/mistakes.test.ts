import assert from 'node:assert/strict'
import { test } from 'node:test'
import { base, mistakesIn, replaced } from './mistakes.ts'

/** A text in the file, its replacement and the expected mistake. */
const inTheFile: readonly (readonly [from: string, to: string, mistake: string])[] = [
  ['apiVersion: apiserver-bootstrap/v1alpha1\n', '', '1:1: a drill needs "apiVersion": the version of the file format'],
  ['v1alpha1', 'v1', '1:13: apiVersion: must be apiserver-bootstrap/v1alpha1, not "apiserver-bootstrap/v1"'],
  ['kind: Drill\n', '', '1:1: a drill needs "kind": what the file holds'],
  ['kind: Drill', 'kind: Configuration', '2:7: kind: must be Drill, not "Configuration"'],
  ['name: mine\n', '', '1:1: a drill needs "name": lower case letters, digits and dashes'],
  ['name: mine', 'name: Mine_1', '3:7: name: must be lower case letters, digits and dashes, not "Mine_1"'],
  ['name: mine', 'name: 7', '3:7: name: must be text, not 7'],
  ['name: mine', 'name: [a]', '3:7: name: must be text'],
  ['description: Something.\n', '', '1:1: a drill needs "description": what is drilled, in one sentence'],
  ['description: Something.', "description: ''", '4:14: description: needs a sentence, not ""'],
  ['description: Something.', 'description: "a\\nb"', '4:14: description: must be one line, not "a\\nb"'],
  [
    'description: Something.',
    'descripton: Something.\ndescription: x',
    '4:1: a drill has no "descripton"; did you mean description?',
  ],
  [
    'description: Something.',
    'description: x\ncolour: red',
    '5:1: a drill has no "colour"; it takes apiVersion, kind, name, description, fleet, clients, bounds, duration, steps',
  ],
  ['fleet:\n  masters: 3\n', '', '1:1: a drill needs "fleet": the masters, and how they maintain the list'],
  ['fleet:\n  masters: 3\n', 'fleet: 3\n', '5:8: fleet must be a mapping of keys to values'],
  ['fleet:\n  masters: 3\n', 'fleet:\n', '5:7: a drill needs "fleet": the masters, and how they maintain the list'],
  ['masters: 3', 'masters: 0', '6:12: masters: must be a whole number from 1 to 100, not 0'],
  ['masters: 3', 'masters: -1', '6:12: masters: must be a whole number from 1 to 100, not -1'],
  ['masters: 3', 'masters: 2.5', '6:12: masters: must be a whole number from 1 to 100, or a list of masters, not 2.5'],
  ['masters: 3', 'masters: 101', '6:12: masters: must be a whole number from 1 to 100, not 101'],
  [
    'masters: 3',
    'masters: three',
    '6:12: masters: must be a whole number from 1 to 100, or a list of masters, not "three"',
  ],
  ['masters: 3', 'masters: []', '6:12: masters: needs at least one master'],
  ['masters: 3', 'master: 3\n  masters: 3', '6:3: fleet has no "master"; did you mean masters?'],
  [
    'masters: 3',
    'masters:\n    - kind: kube-apiserver\n    - {}\n  leaseStore: kubernetes',
    '9:15: leaseStore: must be etcd or kine, not kubernetes: master-1 is a kube-apiserver, which keeps its lease there',
  ],
  [
    'masters: 3',
    'masters:\n    - {}\n    - kind: kube-apiserver\n  leaseStore: memory',
    '9:15: leaseStore: must be etcd or kine, not memory: master-2 is a kube-apiserver, which keeps its lease there',
  ],
  [
    'masters: 3',
    "masters:\n    - addresses: [192.0.2.1, '2001:db8::1']\n    - {}\n  reconciler: master-count",
    '7:18: addresses: takes one address with the reconciler master-count, as run does',
  ],
  ['masters: 3', 'masters: 3\nclients: 20', '7:10: clients must be a mapping of keys to values'],
  ['masters: 3', 'masters: 3\nclients: {count: 0}', '7:18: count: must be a whole number from 1 to 1000, not 0'],
  ['masters: 3', 'masters: 3\nclients: {interval: 1ms}', '7:21: interval: must be at least 10ms, not "1ms"'],
  [
    'masters: 3',
    'masters: 3\nclients: {watch: 1s}',
    '7:11: clients has no "watch"; it takes count, interval, watchDelay, timeout',
  ],
  ['masters: 3', 'masters: 3\nbounds: {listed: -1s}', '7:18: listed: must be at least 0s, not "-1s"'],
  [
    'masters: 3',
    'masters: 3\nbounds: {writes: 40}',
    '7:10: bounds has no "writes"; it takes removalMargin, listed, agreement, recovery, writesPerTenSeconds',
  ],
  [
    'masters: 3',
    'masters: 3\nbounds: {writesPerTenSeconds: 0}',
    '7:31: writesPerTenSeconds: must be a whole number from 1 to 10000, not 0',
  ],
  [
    'masters: 3',
    'masters: 3\nduration: 1m30',
    '7:11: duration: "1m30" is not a duration: a unit is missing (a duration is written like 10s or 1m30s)',
  ],
  ['masters: 3', 'masters: 3\nduration: 10ms', '7:11: duration: must be at least 1s, not "10ms"'],
  ['masters: 3', 'masters: 3\nduration: 4s', '9:9: at: 5s is after the end of the drill, whose duration is 4s'],
  [
    'steps:\n  - at: 5s\n    action: kill\n    masters: [master-2]\n',
    '',
    '1:1: a drill needs "steps": what happens, and when; in any order',
  ],
  [
    'steps:\n  - at: 5s\n    action: kill\n    masters: [master-2]\n',
    'steps: 3\n',
    '7:8: steps: must be a list, not 3',
  ],
  [
    'steps:\n  - at: 5s\n    action: kill\n    masters: [master-2]\n',
    'steps: {at: 5s}\n',
    '7:8: steps: must be a list, not a mapping',
  ],
  [
    'masters: [master-2]',
    'masters: [master-2]\n    for: 30s\nduration: 20s',
    '8:5: steps: kill is over at 35s, after the end of the drill, whose duration is 20s',
  ],
  ['masters: [master-2]', 'masters: [master-2', '10:14: the [ here is not closed with ]'],
  [
    '    masters: [master-2]',
    '    masters: *nobody',
    '10:14: the alias *nobody has no anchor; put a value that begins with * in quotation marks',
  ],
  ['name: mine', 'name: mine\nname: mine', '4:1: "name" is given twice'],
  ['name: mine', 'name: mine\n---\na: b', '4:1: a second document begins here; only one is allowed'],
]

/** A line to add to the fleet, and the expected mistake. */
const inTheFleet: readonly (readonly [line: string, mistake: string])[] = [
  ['virtualAddresses: [192.0.2.100]', '7:22: virtualAddresses: 192.0.2.100 is not the address of two masters or more'],
  ['virtualAddresses: [localhost]', '7:22: virtualAddresses: "localhost" is not an IP address'],
  ['reconciler: leases', '7:15: reconciler: there is no "leases"; did you mean lease?'],
  ['reconciler: kube-apiserver', '7:15: reconciler: must be one of lease, master-count, none, not "kube-apiserver"'],
  ['leaseStore: etc', '7:15: leaseStore: there is no "etc"; did you mean etcd?'],
  ['leaseStore: consul', '7:15: leaseStore: must be one of etcd, kine, kubernetes, memory, not "consul"'],
  ['leaseTtl: 15', '7:13: leaseTtl: must be a duration such as 15s, not 15'],
  [
    'leaseTtl: 15 s',
    '7:13: leaseTtl: "15 s" is not a duration: unknown unit " s" (a duration is written like 10s or 1m30s)',
  ],
  ['leaseTtl: 1s', '7:13: leaseTtl: must be at least 2s, not "1s"'],
  ['leaseTtl: 15500ms', '7:13: leaseTtl: must be whole seconds, not "15500ms"'],
  ['leaseTtl: 14s', '7:13: leaseTtl: must be at least 1.5 times reconcileInterval, 15s, not 14s'],
  ['leaseTtl: 25h', '7:13: leaseTtl: must be at most 1h0m0s, not "25h"'],
  [
    'reconcileInterval: 12s',
    '7:22: reconcileInterval: the TTL must be at least 1.5 times reconcileInterval, 18s, not 15s',
  ],
  ['reconcileInterval: 0s', '7:22: reconcileInterval: must be at least 1s, not "0s"'],
  ['reconcileInterval: -5s', '7:22: reconcileInterval: must be at least 1s, not "-5s"'],
  ['readinessGate: always', '7:18: readinessGate: must be one of continuous, startup, not "always"'],
  ['onShutdown: withdrawn', '7:15: onShutdown: there is no "withdrawn"; did you mean withdraw?'],
  ['apiserverCount: 0', '7:19: apiserverCount: must be a whole number from 1 to 1000, not 0'],
  ['spikes: yes', '7:11: spikes: must be true or false, not "yes"'],
  ['lease-ttl: 15s', '7:3: fleet has no "lease-ttl"; did you mean leaseTtl?'],
]

/** A list of masters instead of their number, and the expected mistake. */
const inMasters: readonly (readonly [masters: readonly string[], mistake: string])[] = [
  [['a', '{}'], '7:7: a master must be a mapping of keys to values'],
  [['{name: A}', '{}'], '7:14: name: must be lower case letters, digits and dashes, not "A"'],
  [['{name: a}', '{name: a}', '{name: master-2}'], '8:14: name: a is used by two masters'],
  [
    ['{name: a-anew}', '{name: master-2}', '{name: a}', '{name: b-anew}'],
    '7:14: name: a-anew is reserved for the successor of a; choose another name',
  ],
  [
    ['{}', '{}', '{name: master-1-anew-anew}'],
    '9:14: name: master-1-anew-anew is reserved for the successor of master-1; choose another name',
  ],
  [['{adresses: [192.0.2.1]}', '{}'], '7:8: a master has no "adresses"; did you mean addresses?'],
  [['{addresses: []}', '{}'], '7:19: addresses: needs at least one address'],
  [['{addresses: 192.0.2.1}', '{}'], '7:19: addresses: must be a list, not "192.0.2.1"'],
  [['{addresses: [192.0.2]}', '{}'], '7:20: addresses: "192.0.2" is not an IP address: an IPv4 address has four parts'],
  [
    ['{addresses: [192.0.2.01]}', '{}'],
    '7:20: addresses: "192.0.2.01" is not an IP address: "01" has a leading zero, which some programs read as octal',
  ],
  [
    ['{addresses: [127.0.0.1]}', '{}'],
    '7:20: addresses: 127.0.0.1 is a loopback address: clients cannot reach a server at this address',
  ],
  [
    ['{addresses: [0.0.0.0]}', '{}'],
    '7:20: addresses: 0.0.0.0 is the unspecified address: clients cannot reach a server at this address',
  ],
  [
    ['{addresses: [169.254.1.1]}', '{}'],
    '7:20: addresses: 169.254.1.1 is a link-local address: clients cannot reach a server at this address',
  ],
  [
    ['{addresses: [224.0.0.1]}', '{}'],
    '7:20: addresses: 224.0.0.1 is a multicast address: clients cannot reach a server at this address',
  ],
  [
    ['{addresses: [255.255.255.255]}', '{}'],
    '7:20: addresses: 255.255.255.255 is the broadcast address: clients cannot reach a server at this address',
  ],
  [
    ["{addresses: ['::1']}", '{}'],
    '7:20: addresses: ::1 is a loopback address: clients cannot reach a server at this address',
  ],
  [
    ["{addresses: ['::ffff:192.0.2.1']}", '{}'],
    '7:20: addresses: "::ffff:192.0.2.1" is an IPv4 address mapped into IPv6; write 192.0.2.1',
  ],
  [
    ["{addresses: ['fe80::1%eth0']}", '{}'],
    '7:20: addresses: "fe80::1%eth0" has a zone; an address without a zone is needed',
  ],
  [
    ['{addresses: [192.0.2.1, 192.0.2.7]}', '{}'],
    '7:19: addresses: two addresses must be of different families, one IPv4 and one IPv6',
  ],
  [["{addresses: [192.0.2.1, '2001:db8::1', 192.0.2.9]}", '{}'], '7:19: addresses: takes at most two addresses'],
  [
    ['{addresses: [192.0.2.2]}', '{}'],
    '8:7: addresses: 192.0.2.2 of master-2 is also an address of master-1; if they share it, add it to virtualAddresses',
  ],
  [
    ['{}', "{addresses: ['2001:db8::2']}"],
    '8:19: addresses: the first address must be IPv4, as that of master-1: Endpoints list one family',
  ],
  [['{kind: kube-apiservr}', '{}'], '7:14: kind: there is no "kube-apiservr"; did you mean kube-apiserver?'],
  [['{kind: sidecar}', '{}'], '7:14: kind: must be one of apiserver-bootstrap, kube-apiserver, not "sidecar"'],
  [['{skew: 1}', '{}'], '7:14: skew: must be a duration such as 1s, not 1'],
  [['{skew: 25h}', '{}'], '7:14: skew: must be at most 24h0m0s either way'],
  [['{drift: 1.5}', '{}'], '7:15: drift: must be a whole number from -100000 to 100000, not 1.5'],
  [['{drift: 200000}', '{}'], '7:15: drift: must be a whole number from -100000 to 100000, not 200000'],
  [
    ['{kind: kube-apiserver, settings: {leaseTtl: 30s}}', '{}'],
    '7:40: settings: cannot be set for master-1: it is a kube-apiserver',
  ],
  [['{kind: kube-apiserver, skew: 1s}', '{}'], '7:36: skew: cannot be set for master-1: it is a kube-apiserver'],
  [['{kind: kube-apiserver, drift: 1}', '{}'], '7:37: drift: cannot be set for master-1: it is a kube-apiserver'],
  [
    ["{kind: kube-apiserver, addresses: [192.0.2.1, '2001:db8::1']}", '{}'],
    '7:41: addresses: takes one address: master-1 is a kube-apiserver',
  ],
  [['{settings: {leaseTTL: 30s}}', '{}'], '7:19: settings has no "leaseTTL"; did you mean leaseTtl?'],
  [['{settings: {leaseTtl: 12s}}', '{}'], '7:29: leaseTtl: must be at least 1.5 times reconcileInterval, 15s, not 12s'],
  [
    ['{settings: {reconcileInterval: 11s}}', '{}'],
    '7:38: reconcileInterval: the TTL must be at least 1.5 times reconcileInterval, 16.5s, not 15s',
  ],
  [
    ['{settings: {apiserverCount: 3}}', '{}'],
    '7:19: settings has no "apiserverCount"; it takes reconciler, leaseTtl, reconcileInterval, readinessGate, onShutdown, securePort',
  ],
  [['{settings: 3}', '{}'], '7:18: settings must be a mapping of keys to values'],
  [['{settings: {securePort: 0}}', '{}'], '7:31: securePort: must be a whole number from 1 to 65535, not 0'],
]

test('the file that the other tests change has no mistakes itself', () => assert.deepEqual(mistakesIn(base), []))

test('each mistake at the top level of the file is reported in one line with its position', () => {
  for (const [from, to, mistake] of inTheFile) assert.deepEqual(mistakesIn(replaced(from, to)), [mistake])
})

test('each mistake in the fleet is reported in one line with its position', () => {
  for (const [line, mistake] of inTheFleet) {
    assert.deepEqual(mistakesIn(replaced('  masters: 3\n', `  masters: 3\n  ${line}\n`)), [mistake])
  }
})

test('each mistake in a list of masters is reported in one line with its position', () => {
  for (const [masters, mistake] of inMasters) {
    const list = masters.map((master) => `    - ${master}\n`).join('')
    assert.deepEqual(mistakesIn(replaced('  masters: 3\n', `  masters:\n${list}`)), [mistake])
  }
})

test('a step that needs a sidecar refuses a kube-apiserver of the fleet, and one that an earlier step adds', () => {
  const text = replaced('  masters: 3\n', '  masters:\n    - kind: kube-apiserver\n    - {}\n').concat(
    '  - {at: 6s, action: scale, to: 3}\n',
    '  - {at: 7s, action: requests-fail, how: hang, masters: [master-1]}\n',
    '  - {at: 8s, action: requests-fail, how: hang, masters: [master-2, master-3]}\n',
    '  - {at: 9s, action: roll-config, masters: [master-3], settings: {leaseTtl: 20s}}\n',
  )
  assert.deepEqual(
    mistakesIn(text).map((line) => line.replace(/^[\d:]+ /, '')),
    [
      'masters: master-1 is a kube-apiserver, which has no sidecar',
      'masters: master-3 is a kube-apiserver, which has no sidecar',
      'masters: master-3 is a kube-apiserver, whose settings cannot be rolled',
    ],
  )
})

test('a step that names the successor of a kube-apiserver is refused with the name in the step', () => {
  const text = replaced('  masters: 3\n', '  masters:\n    - kind: kube-apiserver\n    - {}\n').concat(
    '  - {at: 6s, action: replace, masters: [master-1]}\n',
    '  - {at: 20s, action: requests-fail, how: hang, masters: [master-1-anew]}\n',
    '  - {at: 21s, action: roll-config, masters: [master-1-anew], settings: {leaseTtl: 20s}}\n',
  )
  assert.deepEqual(
    mistakesIn(text).map((line) => line.replace(/^[\d:]+ /, '')),
    [
      'masters: master-1-anew is a kube-apiserver, which has no sidecar',
      'masters: master-1-anew is a kube-apiserver, whose settings cannot be rolled',
    ],
  )
})

test('a drill of kube-apiservers alone is refused if no step has an effect on them', () => {
  const fleet = replaced('  masters: 3\n', '  masters: [{kind: kube-apiserver}]\n')
  const only = '  - at: 5s\n    action: kill\n    masters: [master-2]\n'
  const steps = (...lines: readonly string[]): readonly string[] =>
    mistakesIn(fleet.replace(only, lines.map((line) => `  - {at: 5s, ${line}}\n`).join('')))
  const fault = (names: string): readonly string[] => [
    `8:3: steps: all masters are kube-apiservers, which have no sidecar: ${names} would have no effect`,
  ]
  const failing = 'action: requests-fail, how: hang, masters: all'
  assert.deepEqual(steps(failing, 'action: heal'), fault('requests-fail'))
  const others = ['action: clock-skew, by: 1h, masters: all', 'action: restart, overlap: 2s, masters: all']
  const cut = 'action: partition, from: api, masters: all'
  assert.deepEqual(steps(...others, cut, cut), fault('clock-skew and restart and partition'))
  for (const effective of ['action: partition, masters: all', 'action: restart, masters: all']) {
    assert.deepEqual(steps(failing, effective), [])
  }
  assert.deepEqual(steps('action: heal'), [])
})

test('all values that are invalid by themselves are reported together, in file order', () => {
  const text = base
    .replace('masters: 3', 'masters: 3\n  leaseTtl: 3s\n  reconciler: leases')
    .replace('at: 5s', 'at: -5s')
    .concat(
      '  - at: 6s\n    action: kil\n  - at: 7s\n    action: freeze\n    masters: [master-4]\nquiet: 1s\nkind: Drill\nkind: Drills\n',
    )
  assert.deepEqual(mistakesIn(text), [
    '8:15: reconciler: there is no "leases"; did you mean lease?',
    '10:9: at: must be at least 0s, not "-5s"',
    '14:13: action: there is no action "kil"; did you mean kill?',
    '18:1: a drill has no "quiet"; it takes apiVersion, kind, name, description, fleet, clients, bounds, duration, steps',
    '19:1: "kind" is given twice',
    '20:1: "kind" is given twice',
    '20:7: kind: must be Drill, not "Drills"',
  ])
})

test('conflicts between values are reported together, but only if each value is valid by itself', () => {
  const text = base
    .replace('masters: 3', 'masters: 3\n  leaseTtl: 3s')
    .concat('  - {at: 7s, action: freeze, masters: [master-4, master-1, master-1]}\n')
  assert.deepEqual(mistakesIn(text), [
    '7:13: leaseTtl: must be at least 1.5 times reconcileInterval, 15s, not 3s',
    '12:40: masters: there is no master "master-4"; did you mean master-1?',
    '12:60: masters: master-1 is named twice',
  ])
  assert.deepEqual(mistakesIn(text.replace('at: 5s', 'at: 5')), ['9:9: at: must be a duration such as 5s, not 5'])
})
