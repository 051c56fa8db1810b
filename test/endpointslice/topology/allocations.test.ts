import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cpuRatiosOf, millisOf, nanosOf } from '../../../src/endpointslice/topology/allocations.ts'
import type { Node } from '../../../src/kube/resources.ts'

/** Texts, and the value that `resource.Quantity` gives them, in thousandths and rounded up. */
const quantities: Readonly<Record<string, number>> = {
  '2': 2_000,
  '+2': 2_000,
  '1500m': 1_500,
  '0.5': 500,
  '.5': 500,
  '5.': 5_000,
  '1.5k': 1_500_000,
  '1Ki': 1_024_000,
  '0.5Ki': 512_000,
  '1e3': 1_000_000,
  '1E-2': 10,
  '1E': 1e21,
  '3u': 1,
  '1001u': 2,
  '1n': 1,
  '0.0000000001': 1,
  '0': 0,
  '-1500m': -1_500,
  '-1u': 0,
}

for (const [text, millis] of Object.entries(quantities)) {
  test(`the quantity ${text} is ${millis} thousandths`, () => {
    const nanos = nanosOf(text)
    assert.ok(nanos !== undefined)
    assert.equal(millisOf(nanos) + 0, millis)
  })
}

test('an invalid quantity is undefined', () => {
  for (const text of ['', 'm', '.', '1.2.3', 'two', '1 m', '1mm', '1e', '0x1', '1ki', '--1']) {
    assert.equal(nanosOf(text), undefined, text)
  }
})

test('a quantity of more than 64 characters is undefined', () => {
  assert.equal(nanosOf('9'.repeat(64)), 10n ** 73n - 10n ** 9n)
  for (const text of ['9'.repeat(65), `.${'9'.repeat(64)}`]) assert.equal(nanosOf(text), undefined, text)
})

function node(zone: string | undefined, cpu: string | undefined, labels: Readonly<Record<string, string>> = {}): Node {
  return {
    metadata: { labels: { ...labels, ...(zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone }) } },
    status: {
      ...(cpu === undefined ? {} : { allocatable: { cpu } }),
      conditions: [{ type: 'MemoryPressure', status: 'False' } as never, { type: 'Ready', status: 'True' } as never],
    },
  }
}

test('the CPU of a zone is rounded once, not Node by Node', () => {
  const ratios = cpuRatiosOf([node('a', '500u'), node('a', '500u'), node('b', '3m')])
  assert.deepEqual(
    [...(ratios ?? [])],
    [
      ['a', 0.25],
      ['b', 0.75],
    ],
  )
})

test('one Node without a zone or allocatable CPU makes the CPU ratios undefined', () => {
  const good = [node('a', '1'), node('b', '1')]
  for (const bad of [node(undefined, '1'), node('', '1'), node('a', undefined), node('a', '0'), node('a', 'much')]) {
    assert.equal(cpuRatiosOf([...good, bad]), undefined)
  }
})

test('control-plane Nodes do not count, even without a zone', () => {
  const excluded = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master']
  const nodes = excluded.map((label) => node(undefined, undefined, { [label]: '' }))
  assert.deepEqual(
    cpuRatiosOf([...nodes, node('b', '1'), node('a', '1')]),
    new Map([
      ['a', 0.5],
      ['b', 0.5],
    ]),
  )
})

test('a Node without a Ready condition does not count', () => {
  const silent: Node = {
    metadata: { labels: { 'topology.kubernetes.io/zone': 'c' } },
    status: { allocatable: { cpu: '1' } },
  }
  assert.deepEqual([...(cpuRatiosOf([node('a', '1'), node('b', '1'), silent])?.keys() ?? [])], ['a', 'b'])
})
