import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointSubset, packedSubsets, type SubsetPort } from '../../src/workloads/subsets.ts'

/** Each subset in one line: its ports and its addresses; a mark precedes those that are not ready. */
function lines(subsets: readonly EndpointSubset[]): readonly string[] {
  return packedSubsets(subsets).map(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const numbers = ports.map(({ port }) => `:${port}`).sort()
    return [...numbers, ...addresses.map(({ ip }) => ip), ...notReadyAddresses.map(({ ip }) => `!${ip}`)].join(' ')
  })
}

function subset(ips: readonly string[], ports: readonly number[], appProtocol?: string): EndpointSubset {
  const addresses = ips.filter((ip) => !ip.startsWith('!')).map((ip) => ({ ip }))
  const notReadyAddresses = ips.filter((ip) => ip.startsWith('!')).map((ip) => ({ ip: ip.slice(1) }))
  const extra = appProtocol === undefined ? {} : { appProtocol }
  return { addresses, notReadyAddresses, ports: ports.map((port) => ({ port, protocol: 'TCP', ...extra })) }
}

const tables: Readonly<Record<string, readonly [given: readonly EndpointSubset[], expected: readonly string[]]>> = {
  'no subsets stay none': [[], []],
  'ports without addresses are preserved': [[subset([], [80])], [':80']],
  'ports of the same addresses are merged': [[subset(['a'], [80]), subset(['a'], [81])], [':80 :81 a']],
  'addresses of the same ports are merged': [[subset(['b'], [80]), subset(['a'], [80])], [':80 a b']],
  'an address that is ready for one of two ports is in two subsets': [
    [subset(['a'], [80]), subset(['!a'], [81])],
    [':80 a', ':81 !a'],
  ],
  'an address that is ready and not ready counts as not ready, in any order': [
    [subset(['a', '!b'], [80]), subset(['!a', 'b'], [80]), subset(['a', 'b'], [80])],
    [':80 !a !b'],
  ],
  'an address that is ready and not ready in one subset counts as not ready': [[subset(['a', '!a'], [80])], [':80 !a']],
  'addresses are sorted, ready ones first': [[subset(['c', 'a', '!d', '!b'], [80])], [':80 a c !b !d']],
  'addresses without ports get the ports of equal addresses': [
    [subset(['a'], []), subset(['b'], []), subset(['a', 'b'], [80])],
    [':80 a b'],
  ],
  'addresses of the same ports with an appProtocol are not merged': [
    [subset(['a'], [80], 'http'), subset(['b'], [80], 'http')],
    [':80 a', ':80 b'],
  ],
}

for (const [name, [given, expected]] of Object.entries(tables)) {
  test(`repacked: ${name}`, () => assert.deepEqual(lines(given), expected))
}

test('many ports of many addresses are packed once, and too many pairs are refused', () => {
  const addresses = Array.from({ length: 5_000 }, (_, index) => ({ ip: `10.0.${index >> 8}.${index & 255}` })).reverse()
  const portsFrom = (from: number, count: number): SubsetPort[] =>
    Array.from({ length: count }, (_, index) => ({ name: `p${from + index}`, port: from + index, protocol: 'TCP' }))
  const [packed, ...others] = packedSubsets([{ addresses, ports: portsFrom(1, 1_000) }])
  assert.deepEqual([packed?.addresses?.length, packed?.ports?.length, others.length], [5_000, 1_000, 0])
  // Each port is in a subset with all addresses, and in one with a single address.
  const overlapping = (count: number): readonly EndpointSubset[] => [
    { addresses: addresses.slice(0, 1_000), ports: portsFrom(1, count) },
    ...portsFrom(1, count).map((port) => ({ addresses: [{ ip: `192.0.2.${port.port % 256}` }], ports: [port] })),
  ]
  assert.equal(packedSubsets(overlapping(9)).length, 9)
  const refusal = /^Error: Endpoints with more than 10000 pairs of an address and a port that several subsets list$/
  assert.throws(() => packedSubsets(overlapping(10)), refusal)
  assert.throws(() => packedSubsets(overlapping(990)), refusal)
})

test('subsets without a common port are packed, no matter how many addresses they have', () => {
  const addresses = Array.from({ length: 6_000 }, (_, index) => ({ ip: `10.0.${index >> 8}.${index & 255}` }))
  const given = [80, 81].map((port) => ({ addresses: port === 80 ? addresses : addresses.slice(1), ports: [{ port }] }))
  assert.deepEqual(
    packedSubsets(given).map(({ addresses, ports }) => [addresses?.length, ports?.[0]?.port]),
    [
      [6_000, 80],
      [5_999, 81],
    ],
  )
})

test('addresses with the same IP and target uid are merged, and the first one is retained', () => {
  const to = (uid: string | undefined, name: string) => ({
    ip: 'a',
    targetRef: { name, ...(uid === undefined ? {} : { uid }) },
  })
  const [packed] = packedSubsets([
    { addresses: [to('2', 'b'), to('1', 'a'), { ip: 'a' }, to(undefined, 'x'), to('1', 'z')], ports: [{ port: 80 }] },
  ])
  assert.deepEqual(
    packed?.addresses?.map(({ targetRef }) => targetRef?.name),
    [undefined, 'a', 'b'],
  )
})
