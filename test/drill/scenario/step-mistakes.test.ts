import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestedResources } from '../../../src/drill/request-faults.ts'
import { actionNames } from '../../../src/drill/scenario/step-schema.ts'
import { base, mistakesIn, replaced } from './mistakes.ts'

/** A replacement of the only step, and the expected mistake. */
const inAStep: readonly (readonly [step: string, mistake: string])[] = [
  ['kill', '8:5: a step must be a mapping of keys to values'],
  [
    'action: kill\nmasters: [master-2]',
    '8:5: the action kill needs "at": when, from the moment that everybody is listed',
  ],
  ['at: 5s\nmasters: [master-2]', `8:5: action: is missing; there are ${actionNames.join(', ')}`],
  ['at: 5s', `8:5: action: is missing; there are ${actionNames.join(', ')}`],
  ['at: 5\naction: kill\nmasters: [master-2]', '8:9: at: must be a duration such as 5s, not 5'],
  ['at: -5s\naction: kill\nmasters: [master-2]', '8:9: at: must be at least 0s, not "-5s"'],
  [
    'at: soon\naction: kill\nmasters: [master-2]',
    '8:9: at: "soon" is not a duration (a duration is written like 10s or 1m30s)',
  ],
  [
    'at: 5x\naction: kill\nmasters: [master-2]',
    '8:9: at: "5x" is not a duration: unknown unit "x" (a duration is written like 10s or 1m30s)',
  ],
  ['at: 5s\naction: kil\nmasters: [master-2]', '9:13: action: there is no action "kil"; did you mean kill?'],
  [
    'at: 5s\naction: explode\nmasters: [master-2]',
    `9:13: action: there is no action "explode"; there are ${actionNames.join(', ')}`,
  ],
  [
    'at: 5s\naction: [kill]\nmasters: [master-2]',
    `9:13: action: there is no action ["kill"]; there are ${actionNames.join(', ')}`,
  ],
  [
    'at: 5s\naction: constructor\nmasters: [master-2]',
    `9:13: action: there is no action "constructor"; there are ${actionNames.join(', ')}`,
  ],
  ['at: 5s\naction: kill', '8:5: the action kill needs "masters": which masters'],
  [
    'at: 5s\naction: kill\nmasters: master-2',
    '10:14: masters: must be all, or a list of names such as [master-2], not "master-2"',
  ],
  ['at: 5s\naction: kill\nmasters: []', '10:14: masters: needs at least one name'],
  ['at: 5s\naction: kill\nmasters: [2]', '10:14: masters: must be all, or a list of names such as [master-2]'],
  ['at: 5s\naction: kill\nmasters: [master2]', '10:15: masters: there is no master "master2"; did you mean master-2?'],
  [
    'at: 5s\naction: kill\nmasters: [master-9x]',
    '10:15: masters: there is no master "master-9x"; did you mean master-1?',
  ],
  [
    'at: 5s\naction: kill\nmasters: [nobody]',
    '10:15: masters: there is no master "nobody"; there are master-1, master-2, master-3',
  ],
  ['at: 5s\naction: kill\nmasters: [master-2, master-2]', '10:25: masters: master-2 is named twice'],
  [
    'at: 5s\naction: kill\nmaster: [master-2]\nmasters: all',
    '10:5: the action kill has no "master"; did you mean masters?',
  ],
  ['at: 5s\naction: kill\nmasters: all\nfor: 0s', '11:10: for: must be at least 1ms, not "0s"'],
  [
    'at: 5s\naction: kill\nmasters: all\nfor: forever',
    '11:10: for: "forever" is not a duration (a duration is written like 10s or 1m30s)',
  ],
  ['at: 5s\naction: kill\nmasters: all\npart: api', '11:11: part: must be one of sidecar, server, both, not "api"'],
  [
    'at: 5s\naction: kill\nmasters: all\nhow: hard',
    '11:5: the action kill has no "how"; it takes at, jitter, action, masters, part, for',
  ],
  [
    'at: 5s\naction: start\nmasters: all\nfor: 5s',
    '11:5: the action start has no "for"; it takes at, jitter, action, masters, part',
  ],
  ['at: 5s\naction: restart\nmasters: all\nsignal: hup', '11:13: signal: must be one of kill, terminate, not "hup"'],
  [
    'at: 5s\naction: restart\nmasters: all\noverlap: 2s\npart: server',
    '12:11: part: cannot be used with overlap, which always terminates the sidecar',
  ],
  [
    'at: 5s\naction: restart\nmasters: all\noverlap: 2s\npause: 1s',
    '12:12: pause: cannot be used with overlap, which always terminates the sidecar',
  ],
  [
    'at: 5s\naction: partition\nmasters: all\nfrom: etcd',
    '11:11: from: must be one of api, store, clients, all, not "etcd"',
  ],
  ['at: 5s\naction: slow\nmasters: all\nfrom: api', '8:5: the action slow needs "by": how much longer'],
  [
    'at: 5s\naction: slow\nmasters: all\nfrom: clients\nby: 1s',
    '11:11: from: must be one of api, store, not "clients"',
  ],
  ['at: 5s\naction: slow\nmasters: all\nby: -1s', '11:9: by: must be at least 1ms, not "-1s"'],
  [
    'at: 5s\naction: clock-skew\nmasters: all',
    '8:5: the action clock-skew needs "by": how far it is ahead of true time from then on; may be negative',
  ],
  ['at: 5s\naction: clock-skew\nmasters: all\nby: 48h', '11:9: by: must be at most 24h0m0s either way'],
  [
    'at: 5s\naction: requests-fail\nmasters: all',
    '8:5: the action requests-fail needs "how": status: answered with `status`; hang: never answered; delay: answered late; cut-watches: watches are cut; lose-event: the next event of each watched resource is lost; expired: 401 to every request, until the step is undone and the credentials are renewed',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: status',
    '8:5: steps: requests-fail with how: status needs "status"',
  ],
  ['at: 5s\naction: requests-fail\nmasters: all\nhow: delay', '8:5: steps: requests-fail with how: delay needs "by"'],
  ['at: 5s\naction: requests-fail\nmasters: all\nhow: hang\nevery: 1s', '12:12: every: cannot be used with how: hang'],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: status\nstatus: 403\nretryAfter: 1s',
    '13:17: retryAfter: requires the status 429 or 503, not 403',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: hang\nonly: probe\nverb: get',
    '13:11: verb: cannot be used with only: probe',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: expired\nresource: leases',
    '12:15: resource: cannot be used with how: expired, which refuses all requests',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: hang\nresource: lease',
    '12:15: resource: there is no "lease"; did you mean leases?',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: hang\nresource: flowers',
    `12:15: resource: must be one of ${requestedResources.join(', ')}, not "flowers"`,
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: cut-watches\nverb: get',
    '12:11: verb: must be watch with how: cut-watches, not get',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: lose-event\nverb: list',
    '12:11: verb: must be watch with how: lose-event, not list',
  ],
  [
    'at: 5s\naction: requests-fail\nmasters: all\nhow: lose-event\nonly: probe',
    '12:11: only: must be api with how: lose-event: no probe is a watch',
  ],
  ['at: 5s\naction: own-etcd-dead\nmasters: all\nhow: slowly', '11:10: how: must be one of fails, hangs, not "slowly"'],
  ['at: 5s\naction: datastore-outage', '8:5: the action datastore-outage needs "for": how long until it is undone'],
  ['at: 5s\naction: datastore-outage\nfor: 5s\nhow: broken', '11:10: how: must be one of away, full, not "broken"'],
  [
    'at: 5s\naction: datastore-outage\nfor: 5s\nmasters: all',
    '11:5: the action datastore-outage has no "masters"; it takes at, jitter, action, how, for',
  ],
  ['at: 5s\naction: apiserver-outage', '8:5: the action apiserver-outage needs "for": how long until it is undone'],
  [
    'at: 5s\naction: readyz-fails\nmasters: all\nhow: slowly',
    '11:10: how: must be one of unready, hangs, etcd, not "slowly"',
  ],
  ['at: 5s\naction: compact\nmasters: all', '10:5: the action compact has no "masters"; it takes at, jitter, action'],
  ['at: 5s\naction: damage', '8:5: the action damage needs "damage": which damage'],
  [
    'at: 5s\naction: damage\ndamage: slice-delete',
    '10:13: damage: there is no "slice-delete"; did you mean slice-deleted?',
  ],
  [
    'at: 5s\naction: damage\ndamage: everything',
    '10:13: damage: must be one of endpoints-deleted, endpoints-emptied, endpoints-unlabelled, endpoints-with-a-foreign-port, endpoints-with-a-foreign-protocol, endpoints-with-a-foreign-address, endpoints-with-a-foreign-unready-address, slice-deleted, slice-unlabelled, slice-emptied, service-deleted, service-with-a-foreign-port, not "everything"',
  ],
  ['at: .nan\naction: compact', '8:9: at: must be a duration such as 10s, not NaN'],
  ['at: 5s\naction: rolling-restart\npause: -1s', '10:12: pause: must be at least 0s, not "-1s"'],
  ['at: 5s\naction: roll-config', '8:5: the action roll-config needs "settings": what changes'],
  ['at: 5s\naction: roll-config\nsettings:', '10:14: the action roll-config needs "settings": what changes'],
  ['at: 5s\naction:', `9:12: action: is missing; there are ${actionNames.join(', ')}`],
  ['at: 5s\naction: roll-config\nsettings: {}', '10:15: settings: needs at least one setting: nothing would be rolled'],
  [
    'at: 5s\naction: roll-config\nsettings: {leaseTtl: 10s}',
    '10:26: leaseTtl: must be at least 1.5 times reconcileInterval, 15s, not 10s',
  ],
  [
    'at: 5s\naction: roll-config\nmasters: [master-1]\nsettings: {addresses: [192.0.2.3]}',
    '11:27: addresses: has an address of master-3',
  ],
  [
    'at: 5s\naction: roll-config\nmasters: [master-1]\nsettings: {reconciler: master-count, addresses: [192.0.2.1, "2001:db8::1"]}',
    '11:53: addresses: takes one address with the reconciler master-count, as run does',
  ],
  [
    'at: 5s\naction: roll-config\nmasters: [master-1]\nsettings: {addresses: ["2001:db8::1", 192.0.2.1]}',
    '11:27: addresses: the first address must be IPv4, as that of master-1: Endpoints list one family',
  ],
  [
    'at: 5s\naction: roll-config\nsettings: {addresses: [192.0.2.7]}',
    '10:27: addresses: is for one master: give each a roll-config of its own',
  ],
  [
    'at: 5s\naction: roll-config\nsettings: {leaseTtl: soon}',
    '10:26: leaseTtl: "soon" is not a duration (a duration is written like 10s or 1m30s)',
  ],
  ['at: 5s\naction: scale', '8:5: the action scale needs "to": how many masters there are afterwards'],
  ['at: 5s\naction: scale\nto: 0', '10:9: to: must be a whole number from 1 to 100, not 0'],
  ['at: 5s\naction: scale\nto: many', '10:9: to: must be a whole number from 1 to 100, not "many"'],
  ['at: 5s\naction: random', '8:5: the action random needs "for": how long'],
  ['at: 5s\naction: random\nfor: 60s\nseed: -1', '11:11: seed: must be a whole number from 0 to 4294967295, not -1'],
]

test('each mistake in a step is reported in one line with its position', () => {
  const only = '  - at: 5s\n    action: kill\n    masters: [master-2]\n'
  for (const [step, mistake] of inAStep) {
    assert.deepEqual(mistakesIn(replaced(only, `  - ${step.replaceAll('\n', '\n    ')}\n`)), [mistake])
  }
})

test('a successor may be given the address of its predecessor, but not that of another master', () => {
  const only = '  - at: 5s\n    action: kill\n    masters: [master-2]\n'
  const roll = (address: string): string =>
    replaced(
      only,
      `  - {at: 5s, action: replace, masters: [master-2]}\n  - {at: 20s, action: roll-config, masters: [master-2-anew], settings: {addresses: [${address}]}}\n`,
    )
  assert.deepEqual(mistakesIn(roll("192.0.2.2, '2001:db8::2'")), [])
  assert.deepEqual(mistakesIn(roll('192.0.2.3')), ['9:84: addresses: has an address of master-3'])
})

/** Steps, and what is wrong with the addresses of each `roll-config`. */
const rolls: readonly (readonly [steps: readonly string[], ...mistakes: string[]])[] = [
  [
    ['{at: 5s, action: scale, to: 4}', roll('[master-1]', '192.0.2.4')],
    'has an address of master-4, which a scale step adds',
  ],
  [
    [roll('[master-1]', '192.0.2.4'), '{at: 20s, action: scale, to: 4}'],
    'has an address of master-4, which a scale step adds',
  ],
  [['{at: 5s, action: scale, to: 4}', roll('[master-4]', "192.0.2.4, '2001:db8::4'")]],
  [['{at: 5s, action: scale, to: 4}', roll('[master-4]', '192.0.2.3')], 'has an address of master-3'],
  [
    ['{at: 5s, action: scale, to: 4}', roll('[master-1, master-4]', '192.0.2.9')],
    'is for one master: give each a roll-config of its own',
  ],
  [
    [roll('[master-1]', '192.0.2.9'), roll('[master-2]', '192.0.2.9')],
    'has an address of master-2',
    'has an address of master-1',
  ],
  [[roll('[master-1]', '192.0.2.9'), roll('[master-1]', '192.0.2.9')]],
]

function roll(masters: string, addresses: string): string {
  return `{at: 10s, action: roll-config, masters: ${masters}, settings: {addresses: [${addresses}]}}`
}

test('no step gives a master the address that another master has at any time', () => {
  for (const [steps, ...mistakes] of rolls) {
    const found = mistakesIn(base.concat(steps.map((step) => `  - ${step}\n`).join('')))
    assert.deepEqual(
      found.map((line) => line.replace(/^[\d:]+ addresses: /, '')),
      mistakes,
      steps.join(),
    )
  }
  const alone = base.replace('masters: 3', 'masters: 1').replace('[master-2]', 'all')
  const steps = `  - {at: 5s, action: scale, to: 2}\n  - ${roll('all', '192.0.2.9')}\n`
  assert.match(mistakesIn(alone.concat(steps)).join(), /is for one master/)
})

test('a key without a value counts as omitted', () => {
  const only = '    masters: [master-2]\n'
  assert.deepEqual(
    mistakesIn(replaced(only, `${only}    jitter:\n    for:\n    part:\nduration:\nbounds: {listed: }\n`)),
    [],
  )
  const late = replaced('at: 5s', 'at: 5m').concat('    part: x\nduration:\n')
  assert.deepEqual(mistakesIn(late), ['11:11: part: must be one of sidecar, server, both, not "x"'])
})
