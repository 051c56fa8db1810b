import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeRangeAllocation, encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'

/** What kube-apiserver 1.36.3 stored under `/registry/ranges/servicenodeports` when 30007 was taken. */
const written =
  '6b3873000a150a027631120f52616e6765416c6c6f636174696f6e12220a100a0012001a0022002a00320038004200120b33303030302d33323736371a01801a002200'

function hex(value: Uint8Array): string {
  return Buffer.from(value).toString('hex')
}

test('a new range has the bytes that kube-apiserver writes', () => {
  assert.equal(hex(encodeRangeAllocation({ range: '30000-32767', data: Buffer.of(0x80) })), written)
})

test('a range of kube-apiserver is read, and a write with another bitmap changes only the bitmap', () => {
  const stored = decodeRangeAllocation(Buffer.from(written, 'hex'))
  assert.equal(stored.type, 'protobuf')
  if (stored.type !== 'protobuf') return
  assert.equal(stored.range, '30000-32767')
  assert.deepEqual(Buffer.from(stored.data), Buffer.of(0x80))
  const changed = encodeRangeAllocation({ range: stored.range, data: Buffer.of(0x81) }, stored)
  assert.equal(hex(changed), written.replace('1a0180', '1a0181'))
  assert.equal(hex(encodeRangeAllocation(stored, stored)), written)
})

test('unknown fields survive a write', () => {
  const unknown = 'fa3e03010203'
  const stored = decodeRangeAllocation(Buffer.from(written + unknown, 'hex'))
  assert.equal(stored.type, 'protobuf')
  if (stored.type !== 'protobuf') return
  assert.equal(hex(encodeRangeAllocation(stored, stored)), written + unknown)
})

test('a bitmap, also an empty one, is read as it was written', () => {
  for (const data of [Buffer.of(), Buffer.of(1, 2, 3)]) {
    const stored = decodeRangeAllocation(encodeRangeAllocation({ range: '30000-32767', data }))
    assert.equal(stored.type, 'protobuf')
    if (stored.type === 'protobuf') assert.deepEqual(Buffer.from(stored.data), data)
  }
})

describe('a JSON value', () => {
  const json = (fields: object): Buffer =>
    Buffer.from(JSON.stringify({ kind: 'RangeAllocation', apiVersion: 'v1', ...fields }))
  test('is read with its bitmap', () => {
    assert.deepEqual(decodeRangeAllocation(json({ range: '10.96.0.0/24', data: 'gAE=' })), {
      type: 'json',
      range: '10.96.0.0/24',
      data: Buffer.of(0x80, 1),
    })
  })
  test('is read without a bitmap, which Go writes as null', () => {
    const data = Buffer.of()
    assert.deepEqual(decodeRangeAllocation(json({ range: 'x', data: null })), { type: 'json', range: 'x', data })
  })
  for (const fields of [
    {},
    { range: 5 },
    { range: 'x', data: 5 },
    { range: 'x', data: '?' },
    { range: 'x', data: 'gA' },
  ]) {
    test(`with the fields ${JSON.stringify(fields)} is unreadable`, () => {
      const reason = 'is JSON without a valid range and data'
      assert.deepEqual(decodeRangeAllocation(json(fields)), { type: 'unreadable', reason })
    })
  }
})
