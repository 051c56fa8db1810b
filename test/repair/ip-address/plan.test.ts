import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { IpAddress, Service } from '../../../src/kube/resources.ts'
import { newIpAddress, withAllocatorLabels } from '../../../src/repair/ip-address/ip-address.ts'
import {
  type IpAddressObservation,
  planAddress,
  planIpAddress,
  planServiceIp,
  type ServiceIpObservation,
  type ServiceIpView,
} from '../../../src/repair/ip-address/plan.ts'
import { IpAddressAges } from '../../../src/repair/ip-address/repair.ts'
import { type CheckScope, check } from '../../../src/repair/ip-address/rounds.ts'
import { atOnce } from '../../../src/runtime/steps.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'

function service(name: string, ...clusterIPs: readonly string[]): Service {
  const metadata = { namespace: 'default', name, uid: `uid of ${name}`, creationTimestamp: '2026-01-01T00:00:10Z' }
  return { metadata, spec: { type: 'ClusterIP', clusterIP: clusterIPs[0] ?? 'None', clusterIPs } } as unknown as Service
}

function ipAddress(
  name: string,
  parent: string,
  changes: Partial<IpAddress> = {},
  made = '2026-01-01T00:00:05Z',
): IpAddress {
  const object = newIpAddress(name, { namespace: 'default', name: parent })
  const metadata = { ...object.metadata, uid: `uid of ${name}`, resourceVersion: '7', creationTimestamp: made } as never
  return { ...object, metadata, ...changes }
}

describe('the plan for a ClusterIP', () => {
  const plan = (changes: Partial<ServiceIpObservation>) =>
    planServiceIp({
      service: service('web', '10.0.0.1'),
      clusterIp: '10.0.0.1',
      ipAddress: ipAddress('10.0.0.1', 'web'),
      parent: undefined,
      inRange: () => true,
      repairing: true,
      ...changes,
    })
  const note = (changes: Partial<ServiceIpObservation>): string => {
    const action = plan(changes)
    return action.type === 'none' ? 'none' : `${action.type}: ${action.finding.note}`
  }

  test('does nothing if its IPAddress has the Service as parent and the allocator’s labels', () => {
    assert.deepEqual(plan({}), { type: 'none' })
  })

  test('only reports an invalid address or one outside all ranges, whatever its IPAddress', () => {
    for (const existing of [undefined, ipAddress('10.0.0.1', 'other')]) {
      assert.equal(
        note({ clusterIp: 'nonsense', ipAddress: existing }),
        'report: Cluster IP nonsense is not a valid IP; please recreate Service',
      )
      assert.equal(
        note({ inRange: () => false, ipAddress: existing }),
        'report: Cluster IP [IPv4]: 10.0.0.1 is not within any configured Service CIDR; please recreate service',
      )
    }
  })

  test('uses the canonical name for an address that an old Service spells with zeros', () => {
    const old = service('web', '010.000.0.1')
    assert.deepEqual(plan({ service: old, clusterIp: '010.000.0.1' }), { type: 'none' })
    const made = plan({ service: old, clusterIp: '010.000.0.1', ipAddress: undefined })
    assert.equal(made.type === 'create' ? made.ipAddress.metadata?.name : '', '10.0.0.1')
  })

  test('recreates an IPAddress whose parent is no Service, is missing or has another address', () => {
    const anew = 'recreate: the ClusterIP [IPv4]: 10.0.0.1 for Service default/web has a wrong reference; repairing'
    const parentRef = { group: 'example.com', resource: 'services', namespace: 'default', name: 'web' }
    assert.equal(note({ ipAddress: ipAddress('10.0.0.1', 'web', { spec: { parentRef } }) }), anew)
    assert.equal(note({ ipAddress: ipAddress('10.0.0.1', 'gone') }), anew)
    assert.equal(note({ ipAddress: ipAddress('10.0.0.1', 'api'), parent: service('api', '10.0.0.2') }), anew)
  })

  test('only reports an IPAddress of another Service that holds the address, however that one spells it', () => {
    const report = 'report: Cluster IP [IPv4]:10.0.0.1 was assigned to multiple services; please recreate service'
    assert.equal(note({ ipAddress: ipAddress('10.0.0.1', 'api'), parent: service('api', '10.0.0.1') }), report)
    assert.equal(note({ ipAddress: ipAddress('10.0.0.1', 'api'), parent: service('api', '010.0.0.1') }), report)
  })

  test('corrects wrong labels and preserves the rest', () => {
    const metadata = {
      name: '10.0.0.1',
      uid: 'u',
      resourceVersion: '9',
      labels: { team: 'a' },
      annotations: { b: 'c' },
    }
    const action = plan({ ipAddress: ipAddress('10.0.0.1', 'web', { metadata }) })
    assert.equal(action.type, 'relabel')
    assert.deepEqual(withAllocatorLabels(action.ipAddress).metadata, {
      ...metadata,
      labels: {
        team: 'a',
        'ipaddress.kubernetes.io/ip-family': 'IPv4',
        'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
      },
    })
    assert.equal(action.finding.regarding, undefined, 'no event')
  })

  test('omits "repairing" from its notes if nothing will be repaired', () => {
    assert.equal(
      note({ ipAddress: undefined, repairing: false }),
      'create: Cluster IP [IPv4]: 10.0.0.1 is not allocated',
    )
  })
})

describe('which of two Services keeps an address', () => {
  const older = service('older', '10.0.0.1')
  const younger = service('younger', '10.0.0.1')
  const planned = (existing: IpAddress | undefined): readonly string[] =>
    planAddress('10.0.0.1', {
      holdersOf: () => [older, younger],
      serviceOf: ({ name }) => [older, younger].find(({ metadata }) => metadata?.name === name),
      ipAddressOf: () => existing,
      ageMs: () => 0,
      orphanedMs: () => 0,
      inRange: () => true,
      repairing: true,
    }).map((action) => (action.type === 'none' ? 'none' : `${action.type} ${action.finding.regarding?.metadata?.name}`))

  test('the one that the IPAddress names, older or not', () => {
    assert.deepEqual(planned(ipAddress('10.0.0.1', 'older')), ['report younger'])
    assert.deepEqual(planned(ipAddress('10.0.0.1', 'younger')), ['report older'])
  })

  test('the older one, if the IPAddress names neither or is missing', () => {
    assert.deepEqual(planned(ipAddress('10.0.0.1', 'gone')), ['recreate older', 'report younger'])
    assert.deepEqual(planned(undefined), ['create older', 'report younger'])
  })
})

describe('the plan for an IPAddress', () => {
  const plan = (changes: Partial<IpAddressObservation>): string => {
    const existing = ipAddress('10.0.0.1', 'web')
    const action = planIpAddress({
      ipAddress: existing,
      service: undefined,
      ageMs: 61_000,
      repairing: true,
      ...changes,
    })
    return action.type === 'wait'
      ? `wait ${action.forMs}`
      : action.type === 'delete'
        ? action.finding.note
        : action.type
  }

  test('retains it while its Service holds the address, however spelled', () => {
    assert.equal(plan({ service: service('web', '10.0.0.1') }), 'keep')
    assert.equal(plan({ service: service('web', '10.0.0.9', '010.0.0.1') }), 'keep')
  })

  test('retains it if the allocator did not create it', () => {
    assert.equal(plan({ ipAddress: ipAddress('10.0.0.1', 'web', { metadata: { name: '10.0.0.1' } }) }), 'keep')
  })

  test('deletes one whose parent is not a Service, and names the parent as Go does', () => {
    const parentRef = { group: 'example.com', resource: 'gateways', namespace: 'a', name: 'b' }
    assert.equal(
      plan({ ipAddress: ipAddress('10.0.0.1', 'web', { spec: { parentRef } }), ageMs: 0 }),
      'IPAddress 10.0.0.1 appears to have been modified, not referencing a Service &ParentReference{Group:example.com,Resource:gateways,Namespace:a,Name:b,}: cleaning up',
    )
  })

  test('waits 60 seconds before it deletes one without a Service', () => {
    assert.equal(plan({ ageMs: 0 }), 'wait 60000')
    assert.equal(plan({ ageMs: 59_999 }), 'wait 1')
    assert.equal(
      plan({ ageMs: 60_000 }),
      'IPAddress: 10.0.0.1 for Service default/web appears to have leaked: cleaning up',
    )
  })

  test('waits 60 seconds before it deletes one whose Service does not hold it, whatever the Service is', () => {
    const wrong = 'IPAddress: 10.0.0.1 for Service default/web has a wrong reference; cleaning up'
    const external = { ...service('web'), spec: { type: 'ExternalName' } } as Service
    for (const held of [external, service('web', '10.0.0.2'), service('web', 'fd00::1'), service('web', 'None')]) {
      assert.equal(plan({ service: held, ageMs: 59_999 }), 'wait 1')
      assert.equal(plan({ service: held, ageMs: 60_000 }), wrong)
    }
  })
})

describe('a check of all IPAddresses', () => {
  const unowned = ipAddress('10.0.0.1', 'gone')
  const holder = service('web', '10.0.0.1')
  const view: ServiceIpView = {
    holdersOf: (name) => (name === '10.0.0.1' ? [holder] : []),
    serviceOf: () => undefined,
    ipAddressOf: () => unowned,
    ageMs: () => Number.POSITIVE_INFINITY,
    orphanedMs: () => Number.POSITIVE_INFINITY,
    inRange: () => true,
    repairing: true,
  }
  const types = (scope: Partial<CheckScope>, changes: Partial<ServiceIpView> = {}): readonly string[] =>
    atOnce(
      check({ names: ['10.0.0.1'], existing: [unowned], deleting: true, ...scope }, { ...view, ...changes }),
    ).writes.map(({ type }) => type)

  test('does not also delete an IPAddress that it recreates for a Service', () => {
    assert.deepEqual(types({}), ['recreate'])
    assert.deepEqual(types({}, { holdersOf: () => [] }), ['delete'])
    assert.deepEqual(types({}, { inRange: () => false }), ['delete'], 'an address out of range is not recreated')
  })

  test('leaves a new orphan to its server for 5 seconds', () => {
    assert.deepEqual(types({}, { holdersOf: () => [], orphanedMs: () => 4_999 }), [])
    const found = atOnce(
      check(
        { names: [], existing: [unowned], deleting: true },
        { ...view, holdersOf: () => [], orphanedMs: () => 4_999 },
      ),
    )
    assert.equal(found.againMs, 1)
    assert.deepEqual(found.orphans, [unowned])
    assert.deepEqual(types({}, { holdersOf: () => [], orphanedMs: () => 5_000 }), ['delete'])
  })

  test('deletes nothing if it may not, and returns when to check again', () => {
    for (const [orphanedMs, againMs] of [
      [0, 5_000],
      [5_000, 0],
    ] as const) {
      const nobodys = { ...view, holdersOf: () => [], orphanedMs: () => orphanedMs }
      const found = atOnce(check({ names: [], existing: [unowned], deleting: false }, nobodys))
      assert.deepEqual(found.writes, [])
      assert.equal(found.againMs, againMs)
    }
  })
})

describe('the age of an IPAddress', () => {
  test('counts from when its uid was first seen, and is forgotten after a minute', async () => {
    const time = new VirtualClock()
    const ages = new IpAddressAges(time.view())
    ages.listed()
    await time.advance(1_000)
    const first = ipAddress('10.0.0.1', 'web')
    ages.apply({ type: 'added', object: first })
    await time.advance(30_000)
    ages.apply({ type: 'updated', old: first, object: { ...first } })
    assert.equal(ages.ageMs(first), 30_000)
    const second = { ...first, metadata: { ...first.metadata, uid: 'another' } } as IpAddress
    ages.apply({ type: 'updated', old: first, object: second })
    assert.equal(ages.ageMs(second), 0)
    await time.advance(59_999)
    ages.tidy()
    assert.equal(ages.ageMs(second), 59_999)
    await time.advance(1)
    ages.tidy()
    // It counts as old as the first list, which is older than a minute.
    assert.equal(ages.ageMs(second), 91_000)
  })

  test('counts from the end of the first list if it was in that list', async () => {
    const time = new VirtualClock()
    const ages = new IpAddressAges(time.view())
    const listed = ipAddress('10.0.0.1', 'web')
    ages.apply({ type: 'added', object: listed })
    await time.advance(20_000)
    assert.equal(ages.ageMs(listed), 0)
    ages.listed()
    await time.advance(30_000)
    ages.tidy()
    assert.equal(ages.ageMs(listed), 30_000)
  })
})
