import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { IpAddress, Service, ServiceCidr } from '../../../src/kube/resources.ts'
import { Store } from '../../../src/kube/store.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { lookupNameOf } from '../../../src/repair/ip-address/ip-address.ts'
import {
  addressesOf,
  addressTest,
  holdersIn,
  holdsAddress,
  rangesOf,
  ServiceIpRanges,
} from '../../../src/repair/ip-address/service-ips.ts'
import { trimService } from '../../../src/repair/service-claims.ts'
import { atOnce } from '../../../src/runtime/steps.ts'

function service(name: string, clusterIPs: readonly string[], more: object = {}, type = 'ClusterIP'): Service {
  const metadata = { namespace: 'default', name, uid: name, creationTimestamp: '2026-01-01T00:00:01Z', ...more }
  return { metadata, spec: { type, clusterIP: clusterIPs[0], clusterIPs } } as unknown as Service
}

const named = (...names: readonly string[]) => names.map((name) => ({ metadata: { name } }) as IpAddress)
const cidrs = (...texts: readonly string[]): ServiceCidr => ({ spec: { cidrs: texts } }) as ServiceCidr

test('the key of a valid address is its canonical name, of an invalid one its text', () => {
  assert.deepEqual(['010.0.0.1', 'FD00::1', '::ffff:10.0.0.1', 'nonsense'].map(lookupNameOf), [
    '10.0.0.1',
    'fd00::1',
    '10.0.0.1',
    'nonsense',
  ])
  const held = service('web', ['010.0.0.1', 'fd00::1'])
  assert.deepEqual(
    ['10.0.0.1', 'fd00::1', '10.0.0.2'].map((name) => holdsAddress(held, name)),
    [true, true, false],
  )
})

describe('the addresses to check after a change of a Service', () => {
  const old = service('web', ['010.0.0.1', 'fd00::1'])
  for (const [what, object, expected] of [
    [
      'are none if its addresses, type and uid are unchanged',
      service('web', ['010.0.0.1', 'fd00::1'], { labels: {} }),
      [],
    ],
    ['are those before and after a change of one', service('web', ['010.0.0.1', 'FD00::2']), ['fd00::1', 'fd00::2']],
    [
      'are its addresses if another Service has its name',
      service('web', ['010.0.0.1', 'fd00::1'], { uid: 'b' }),
      ['fd00::1'],
    ],
    ['are its addresses if its type changes', service('web', ['010.0.0.1', 'fd00::1'], {}, 'NodePort'), ['fd00::1']],
  ] as const) {
    test(what, () => {
      assert.deepEqual(addressesOf({ type: 'added', object: old }), ['10.0.0.1', 'fd00::1'])
      const asked = new Set(addressesOf({ type: 'updated', old, object }))
      assert.deepEqual(asked, new Set(expected.length === 0 ? [] : ['10.0.0.1', ...expected]))
      assert.deepEqual(addressesOf({ type: 'deleted', old: object }).length, 2)
    })
  }
})

test('the holders of an address are sorted by age, and by name within the same second', () => {
  const store = new Store(trimService.packing)
  const late = service('a', ['10.0.0.1'], { creationTimestamp: '2026-01-01T00:00:02Z' })
  const [second, first] = [service('c', ['10.0.0.1']), service('b', ['10.0.0.1', '010.0.0.1'])]
  for (const object of [late, second, first]) store.apply({ type: 'ADDED', object })
  const holders = (name: string) => holdersIn(store, name).map(({ metadata }) => metadata?.name)
  assert.deepEqual(holders('10.0.0.1'), ['b', 'c', 'a'])
  store.apply({ type: 'DELETED', object: second })
  store.apply({ type: 'DELETED', object: first })
  assert.deepEqual(holders('10.0.0.1'), ['a'])
  assert.deepEqual(holders('10.0.0.2'), [])
})

describe('the ranges of all ServiceCIDRs', () => {
  test('count each address once, in the first range that has it', () => {
    const ranges = new ServiceIpRanges([cidrs('10.0.0.0/24', 'fd00::/124'), cidrs('10.0.0.0/24'), cidrs('10.0.0.0/16')])
    assert.equal(ranges.text, '10.0.0.0/24,fd00::/124,10.0.0.0/16')
    atOnce(ranges.countAll(named('10.0.0.1', '10.0.1.1', 'fd00::1', 'fd00::2', '192.0.2.1', 'fd01::1', 'x:y')))
    const counts = () => ranges.usage().map(({ allocated }) => allocated)
    assert.deepEqual(counts(), [1, 2, 1])
    for (const name of ['192.0.2.1', 'fd01::1', 'x:y']) ranges.count(name, 1)
    ranges.count('fd00::3', 1)
    ranges.count('10.0.0.1', -1)
    assert.deepEqual(counts(), [0, 3, 1])
    atOnce(ranges.countAll(named('10.0.0.9')))
    ranges.count('10.0.0.9', -1)
    assert.deepEqual(counts(), [0, 0, 0], 'a removed count stays at zero')
  })

  test('count changes that happen during a recount', () => {
    const ranges = new ServiceIpRanges([cidrs('10.0.0.0/24')])
    const allocated = () => ranges.usage()[0]?.allocated
    const counting = ranges.countAll(named('10.0.0.1', '10.0.0.2', '10.0.0.3'))
    counting.next()
    for (const name of ['10.0.0.4', '10.0.0.5']) ranges.count(name, 1)
    ranges.count('10.0.0.3', -1)
    assert.equal(allocated(), 1)
    atOnce(counting)
    assert.equal(allocated(), 4)
  })

  test('omit texts that are not ranges', () => {
    assert.deepEqual(
      rangesOf(cidrs('10.0.0.0/24', 'nonsense', 'fd00::/124')).map(({ text }) => text),
      ['10.0.0.0/24', 'fd00::/124'],
    )
    assert.deepEqual(rangesOf({}), [])
  })
})

test('addressTest accepts the addresses of some ranges that other ranges do not have', () => {
  const wanted = ['10.0.0.0/28', '10.0.1.0/28', 'fd00::/124'].map(parseCidr)
  const isNeeded = addressTest(wanted, ['10.0.0.0/29', 'fd00::8/125'].map(parseCidr))
  const names = ['10.0.0.0', '10.0.0.7', '10.0.0.9', '10.0.0.15', '10.0.1.1', 'fd00::', 'fd00::1', 'fd00::8', 'fd00::9']
  assert.deepEqual(
    names.filter((name) => isNeeded(name)),
    ['10.0.0.7', '10.0.0.9', '10.0.1.1', 'fd00::1', 'fd00::8'],
    'the ends of a range are not a Service’s: there the other range may have none',
  )
  assert.deepEqual(['fd00::1', 'nonsense'].map(isNeeded), [true, false])
  assert.equal(addressTest(wanted)('10.0.0.1'), true)
})
