import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planMirror } from '../../../src/endpointslice/mirroring/mirror-plan.ts'
import { type EndpointSubset, repackSubsets } from '../../../src/endpointslice/mirroring/mirrored-endpoints.ts'

/** Each subset in a line: its ports, its addresses, those that are not ready with a mark. */
function lines(subsets: readonly EndpointSubset[]): readonly string[] {
  return repackSubsets(subsets).map(({ ports, ready, notReady }) =>
    [...ports.map(({ port }) => `:${port}`), ...ready.map(({ ip }) => ip), ...notReady.map(({ ip }) => `!${ip}`)].join(
      ' ',
    ),
  )
}

function subset(ips: readonly string[], ports: readonly number[], appProtocol?: string): EndpointSubset {
  const addresses = ips.filter((ip) => !ip.startsWith('!')).map((ip) => ({ ip }))
  const notReadyAddresses = ips.filter((ip) => ip.startsWith('!')).map((ip) => ({ ip: ip.slice(1) }))
  const extra = appProtocol === undefined ? {} : { appProtocol }
  return { addresses, notReadyAddresses, ports: ports.map((port) => ({ port, protocol: 'TCP', ...extra })) }
}

const tables: Readonly<Record<string, readonly [given: readonly EndpointSubset[], expected: readonly string[]]>> = {
  'nothing of nothing': [[], []],
  'ports without addresses stay': [[subset([], [80])], [':80']],
  'the ports of the same addresses come together': [[subset(['a'], [80]), subset(['a'], [81])], [':80 :81 a']],
  'the addresses of the same ports come together': [[subset(['b'], [80]), subset(['a'], [80])], [':80 a b']],
  'an address that is ready for one port only is not ready for the other': [
    [subset(['a'], [80]), subset(['!a'], [81])],
    [':80 a', ':81 !a'],
  ],
  'not ready trumps ready, whatever comes first': [
    [subset(['a', '!b'], [80]), subset(['!a', 'b'], [80]), subset(['a', 'b'], [80])],
    [':80 !a !b'],
  ],
  'both in one subset is not ready': [[subset(['a', '!a'], [80])], [':80 !a']],
  'addresses are ordered, ready ones first': [[subset(['c', 'a', '!d', '!b'], [80])], [':80 a c !b !d']],
  'addresses without ports are kept, and get those that the same addresses have': [
    [subset(['a'], []), subset(['b'], []), subset(['a', 'b'], [80])],
    [':80 a b'],
  ],
  'ports with an appProtocol do not bring other addresses together': [
    [subset(['a'], [80], 'http'), subset(['b'], [80], 'http')],
    [':80 a', ':80 b'],
  ],
  'ports with an appProtocol are there once for the same addresses': [
    [subset(['a'], [80], 'http'), subset(['a'], [80], 'http')],
    [':80 a'],
  ],
}

for (const [name, [given, expected]] of Object.entries(tables)) {
  test(`repacked: ${name}`, () => assert.deepEqual(lines(given), expected))
}

test('addresses are one where address and uid of the target are, and the first says what it is like', () => {
  const to = (uid: string | undefined, name: string) => ({
    ip: 'a',
    targetRef: { name, ...(uid === undefined ? {} : { uid }) },
  })
  const [packed] = repackSubsets([
    { addresses: [to('2', 'b'), to('1', 'a'), { ip: 'a' }, to(undefined, 'x'), to('1', 'z')], ports: [{ port: 80 }] },
  ])
  assert.deepEqual(
    packed?.ready.map(({ targetRef }) => targetRef?.name),
    [undefined, 'a', 'b'],
  )
})

test('the maximum counts for each subset; those of one port list share a slice that has no more either', () => {
  const one = [subset(['192.0.2.2'], [80], 'http'), subset(['192.0.2.1'], [80], 'http')]
  const endpoints = { metadata: { namespace: 'ns', name: 'svc' }, subsets: one }
  const plan = planMirror({ endpoints, service: {}, slices: [], maxEndpointsPerSubset: 1 })
  assert.ok(plan.type === 'mirrored')
  assert.deepEqual(plan.events, [])
  assert.deepEqual(
    plan.actions.map(({ slice }) => slice.endpoints?.length),
    [1],
  )
})
