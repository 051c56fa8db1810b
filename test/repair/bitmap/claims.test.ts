import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Service } from '../../../src/kube/resources.ts'
import { addressOf, bitsOf } from '../../../src/net/address.ts'
import { addressAllocationRange, type Cidr, cidrOf, parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims } from '../../../src/repair/bitmap/claims.ts'

const service = (...clusterIPs: readonly string[]): Service =>
  ({ metadata: { namespace: 'default', name: 'web' }, spec: { clusterIP: clusterIPs[0], clusterIPs } }) as Service

/** What a Service holds and what is wrong with it. */
function visit(cidrs: readonly Cidr[], given: Service): readonly string[] {
  const results: string[] = []
  clusterIpClaims(cidrs).visit(
    given,
    (range, offset) => void results.push(`${range} ${offset}`),
    ({ type, reason, note }) => void results.push(`${type} ${reason}: ${note}`),
  )
  return results
}

const range = fc
  .record({
    family: fc.constantFrom(4 as const, 6 as const),
    value: fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }),
    host: fc.nat(20),
  })
  .map(({ family, value, host }) =>
    cidrOf(addressOf(family, value >> BigInt(128 - bitsOf(family))), bitsOf(family) - host),
  )
  .filter(({ family, network }) => family === 4 || network.value >> 32n !== 0xffffn)

test('a ClusterIP has its offset in the allocation range, and is reported as out of range if it has none', () => {
  const near = fc.oneof(
    fc.constantFrom(-1n, 0n, 1n, 2n, 65_534n, 65_535n, 65_536n),
    fc.bigInt({ min: 0n, max: 1n << 21n }),
  )
  fc.assert(
    fc.property(range, near, fc.boolean(), (cidr, distance, fromEnd) => {
      const { family, network, size } = cidr
      const value = fromEnd ? network.value + size - distance : network.value + distance
      fc.pre(value >= 0n && value < 1n << BigInt(bitsOf(family)) && (family === 4 || value >> 32n !== 0xffffn))
      const address = addressOf(family, value)
      const offset = addressAllocationRange(cidr).offsetOf(address)
      const results = visit([cidr], service(address.text))
      if (offset === undefined) assert.match(results[0] ?? '', /^outOfRange/)
      else assert.deepEqual(results, [`0 ${offset}`])
    }),
    { numRuns: 2_000 },
  )
})

const cidrs = [parseCidr('10.96.0.0/24'), parseCidr('fd00::/112')]
const cases: readonly (readonly [string, readonly Cidr[], readonly string[], readonly string[]])[] = [
  ['both families', cidrs, ['fd00::a', '10.96.0.9'], ['1 9', '0 8']],
  ['a headless Service holds nothing', cidrs, ['None'], []],
  ['a Service without an address holds nothing', cidrs, [''], []],
  ['an IPv4-mapped IPv6 address counts as the IPv4 address', cidrs, ['::ffff:10.96.0.9'], ['0 8']],
  ['numbers with leading zeros are decimal', cidrs, ['010.096.0.09'], ['0 8']],
  [
    'the network and the broadcast address are out of range',
    cidrs,
    ['10.96.0.0', '10.96.0.255'],
    ['0', '255'].map(
      (last) =>
        `outOfRange ClusterIPOutOfRange: Cluster IP [IPv4]:10.96.0.${last} is not within the service CIDR 10.96.0.0/24; please recreate service`,
    ),
  ],
  [
    'an address of a family without a range is invalid',
    [parseCidr('10.96.0.0/24')],
    ['10.96.0.9', 'FD00::A'],
    [
      '0 8',
      'invalid ClusterIPNotValid: Cluster IP fd00::a(IPv6) is of ip family that is no longer configured on cluster; please recreate service',
    ],
  ],
  [
    'a text that is not an address is invalid',
    cidrs,
    ['web'],
    ['invalid ClusterIPNotValid: Cluster IP web is not a valid IP; please recreate service'],
  ],
]
for (const [name, ranges, clusterIPs, expected] of cases) {
  test(name, () => assert.deepEqual(visit(ranges, service(...clusterIPs)), expected))
}

test('a range that is too large for a bitmap is omitted, and addresses in it are not reported', () => {
  const large = [parseCidr('10.0.0.0/8'), parseCidr('fd00::/112')]
  assert.deepEqual(
    clusterIpClaims(large).ranges.map(({ name, text }) => [name, text]),
    [['secondaryserviceips', 'fd00::/112']],
  )
  assert.deepEqual(visit(large, service('10.1.2.3', 'fd00::a')), ['0 9'])
  assert.equal(clusterIpClaims(large).parse('10.0.0.0/8'), undefined)
})

test('two ranges of one family are refused', () => {
  assert.throws(() => clusterIpClaims([parseCidr('10.96.0.0/24'), parseCidr('10.97.0.0/24')]), RangeError)
})

for (const [cidr, first, last, size] of [
  ['10.0.0.0/24', '10.0.0.1', '10.0.0.254', 254],
  ['10.96.0.0/12', '10.96.0.1', '10.111.255.254', 1_048_574],
  ['fd00::/124', 'fd00::1', 'fd00::f', 15],
  ['fd00::/108', 'fd00::1', 'fd00::ffff', 65_535],
] as const) {
  test(`as in upstream, the bitmap of ${cidr} has ${size} bits: the first is ${first}, the last is ${last}`, () => {
    const [range] = clusterIpClaims([parseCidr(cidr)]).ranges
    assert.deepEqual([range?.size, range?.textAt(0), range?.textAt(size - 1)], [size, first, last])
    assert.deepEqual([range?.offsetOf(first), range?.offsetOf(last)], [0, size - 1])
    assert.deepEqual(visit([parseCidr(cidr)], service(first, last)), ['0 0', `0 ${size - 1}`])
  })
}

test('as in upstream, the first bit of a port range is its first port', () => {
  const [range] = nodePortClaims(parsePortRange('30000-32767')).ranges
  assert.deepEqual([range?.size, range?.textAt(0), range?.textAt(2_767)], [2_768, '30000', '32767'])
  assert.deepEqual([range?.offsetOf('30000'), range?.offsetOf('32767')], [0, 2_767])
})

const claims = nodePortClaims(parsePortRange('30000-30099'))

test('ports and health check ports in the range are held, and a port outside the range is reported', () => {
  const service = {
    metadata: { namespace: 'default', name: 'web', uid: 'u' },
    spec: {
      ports: [{ port: 80, nodePort: 30_001 }, { port: 81 }, { port: 82, nodePort: 30_100 }],
      healthCheckNodePort: 30_099,
    },
  } as Service
  const held: number[] = []
  const results: unknown[] = []
  claims.visit(
    service,
    (_, offset) => void held.push(offset),
    (finding) => void results.push(finding),
  )
  assert.deepEqual(held, [1, 99])
  assert.deepEqual(results, [
    {
      type: 'outOfRange',
      reason: 'PortOutOfRange',
      note: 'Port 30100 is not within the port range 30000-30099; please recreate service',
      regarding: { apiVersion: 'v1', kind: 'Service', metadata: service.metadata },
      item: '30100',
    },
  ])
})

test('the text of a stored port range is parsed, and a CIDR is not', () => {
  assert.equal(claims.parse('30000-32767')?.size, 2768)
  assert.equal(claims.parse('30000-32767')?.textAt(5), '30005')
  assert.equal(claims.parse('10.96.0.0/12'), undefined)
})
