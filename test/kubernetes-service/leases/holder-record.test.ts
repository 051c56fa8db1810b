import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeHolder,
  encodeHolder,
  type Holder,
  yieldsTo,
} from '../../../src/kubernetes-service/leases/master-leases.ts'

const holder: Holder = {
  instanceId: 'life-1',
  host: 'host-1',
  startedAt: '2026-01-01T00:00:00.000000Z',
  addresses: ['192.0.2.1', '2001:db8::1'],
  ports: { securePort: 6443, nodePort: 0 },
  state: 'failing',
  departure: 'life-1/1',
  reason: 'own-etcd',
  confirms: ['life-2/1'],
}

test('encoding and decoding preserve a record', () => {
  assert.deepEqual(decodeHolder(encodeHolder(holder)), holder)
})

const long = 'x'.repeat(301)

/** Fields that other masters would copy, sort by or use as keys. */
const refused: Readonly<Record<string, Partial<Holder>>> = {
  'a host name that is too long': { host: long },
  'a host name that is not valid Unicode': { host: '\ud800' },
  'a start that is not a time': { startedAt: 'zzz' },
  'a start at the last representable time': { startedAt: '9999-12-31T23:59:59.999999Z' },
  'an instance ID that is too long': { instanceId: long },
  'no address': { addresses: [] },
  'three addresses': { addresses: ['192.0.2.1', '192.0.2.2', '192.0.2.3'] },
  'a loopback address as its second address': { addresses: ['192.0.2.1', '::1'] },
}

for (const [description, forged] of Object.entries(refused)) {
  test(`a record with ${description} is invalid`, () => {
    assert.equal(decodeHolder(JSON.stringify({ ...holder, ...forged })), undefined)
  })
}

test('a text of more than 16 KiB is no record, and is not parsed', (t) => {
  const parse = t.mock.method(JSON, 'parse')
  const padded = (length: number): string => encodeHolder(holder).padEnd(length)
  assert.deepEqual(decodeHolder(padded(16_384)), holder)
  assert.equal(decodeHolder(padded(16_385)), undefined)
  assert.equal(parse.mock.callCount(), 1)
})

test('the longest record that a master writes is valid', () => {
  const departure = 'x'.repeat(100)
  const longest: Holder = {
    instanceId: '\u0001'.repeat(300),
    host: '\u0002'.repeat(300),
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: ['2001:db8:ffff:ffff:ffff:ffff:ffff:fff1', '2001:db8:ffff:ffff:ffff:ffff:ffff:fff2'],
    ports: { securePort: 65_535, nodePort: 65_535 },
    state: 'withdrawn',
    departure,
    reason: '\u0003'.repeat(200),
    confirms: Array.from({ length: 64 }, () => departure),
    coHolder: true,
  }
  const text = encodeHolder(longest)
  assert.ok(text.length < 12_000, `${text.length} characters`)
  assert.notEqual(decodeHolder(text)?.host, undefined)
})

test('a value that this version does not understand does not invalidate the record', () => {
  for (const [given, read] of [
    [{ state: 'draining' }, { state: 'failing' }],
    [{ departure: long }, { departure: undefined }],
    [{ departure: 'x'.repeat(101) }, { departure: undefined }],
    [{ departure: '\u0001' }, { departure: undefined }],
    [{ departure: 7 }, { departure: undefined }],
    [{ reason: {} }, { reason: undefined }],
    [{ confirms: [long] }, { confirms: undefined }],
    [{ confirms: Array.from({ length: 65 }, (_, index) => `life-2/${index}`) }, { confirms: undefined }],
    [{ confirms: 'all' }, { confirms: undefined }],
    [{ coHolder: 'perhaps' }, { coHolder: undefined }],
    [{ later: 1 }, {}],
  ] as const) {
    assert.deepEqual(
      JSON.parse(JSON.stringify(decodeHolder(JSON.stringify({ ...holder, ...given })))),
      JSON.parse(JSON.stringify({ ...holder, ...read })),
    )
  }
})

test('a reason is shortened and its secrets are redacted, both when written and when read', () => {
  const reason = `token=abcdefgh ${'x'.repeat(300)}`
  const shown = `token=[redacted] ${'x'.repeat(183)}`
  assert.equal(decodeHolder(JSON.stringify({ ...holder, reason }))?.reason, shown)
  assert.equal(JSON.parse(encodeHolder({ ...holder, reason })).reason, shown)
})

test('a master yields to its own later life, but not to a record of another host or address', () => {
  const later = { ...holder, instanceId: 'life-2', startedAt: '2026-01-02T00:00:00.000000Z' }
  const withdrawn = { ...holder, state: 'withdrawn' } as const
  assert.equal(yieldsTo(later, holder), true)
  assert.throws(() => yieldsTo(withdrawn, holder), { code: 'LeaseWithdrawn' })
  for (const other of [{ host: 'host-2' }, { addresses: ['192.0.2.2'] }]) {
    for (const stored of [later, withdrawn]) assert.equal(yieldsTo({ ...stored, ...other }, holder), false)
  }
})
