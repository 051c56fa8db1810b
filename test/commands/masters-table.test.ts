import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mastersJson } from '../../src/commands/masters-json.ts'
import type { MasterRow } from '../../src/commands/masters-rows.ts'
import { MastersScreen } from '../../src/commands/masters-screen.ts'
import { changeKey, mastersTable } from '../../src/commands/masters-table.ts'

const ready: MasterRow = {
  address: '192.0.2.1',
  holder: {
    instanceId: '0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8',
    host: 'control-1',
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: ['192.0.2.1'],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
  },
  ageMs: 184_000,
  life: { type: 'ends', leftMs: 12_000 },
  verdict: 'live',
  leased: true,
  listed: true,
  conflicts: [],
  id: '/registry/masterleases/192.0.2.1',
  revision: '41',
}
const foreign: MasterRow = {
  ...ready,
  address: '192.0.2.20',
  holder: undefined,
  ageMs: undefined,
  life: { type: 'never' },
  verdict: 'stale',
  listed: false,
  conflicts: [
    { code: 'no-holder', message: 'no holder record' },
    { code: 'never-ends', message: 'nothing ends this lease' },
  ],
}
const unknown: MasterRow = {
  ...foreign,
  life: undefined,
  verdict: undefined,
  leased: false,
  listed: undefined,
  id: undefined,
  revision: undefined,
  conflicts: [],
}

test('the table is as wide as its content, and what is not known is a dash', () => {
  assert.deepEqual(mastersTable([ready, foreign, { ...unknown, address: '192.0.2.9' }]), [
    'ADDRESS     HOLDER    HOST       AGE   LEFT   LISTED  READY  CONFLICTS',
    '192.0.2.1   0b1c2d3e  control-1  3m4s  12s    yes     yes    -',
    '192.0.2.20  -         -          -     never  no      -      no holder record; nothing ends this lease',
    '192.0.2.9   -         -          -     -      -       -      -',
  ])
})

test('a time that is only what the lease says is marked, and one that nobody renewed is over', () => {
  const left = (row: Partial<MasterRow>) => mastersTable([{ ...ready, ...row }])[1]?.split(/ {2,}/)[4]
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: 9_000 }, verdict: 'unknown' }), '~9s')
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: undefined }, verdict: 'unknown' }), '-')
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: -9_000 }, verdict: 'stale' }), 'over')
  assert.equal(left({ leased: false }), '-')
})

test('a master that is not ready says what it is instead', () => {
  const holder = ready.holder && { ...ready.holder, state: 'leaving' as const }
  assert.match(mastersTable([{ ...ready, holder }])[1] ?? '', / leaving +-$/)
})

test('for programs everything has a field, and what is not known is null', () => {
  const about = { leaseStore: 'etcd', listed: ['192.0.2.1'] }
  assert.deepEqual(mastersJson([ready, { ...unknown, address: undefined }], about), {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'MasterList',
    leaseStore: 'etcd',
    listedAddresses: ['192.0.2.1'],
    masters: [
      {
        address: '192.0.2.1',
        holder: '0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8',
        host: 'control-1',
        startedAt: '2026-01-01T00:00:00.000000Z',
        ageSeconds: 184,
        hasLease: true,
        neverEnds: false,
        leftSeconds: 12,
        live: true,
        listed: true,
        state: 'ready',
        ready: true,
        conflicts: [],
        id: '/registry/masterleases/192.0.2.1',
        revision: '41',
      },
      {
        address: null,
        holder: null,
        host: null,
        startedAt: null,
        ageSeconds: null,
        hasLease: false,
        neverEnds: false,
        leftSeconds: null,
        live: null,
        listed: null,
        state: null,
        ready: null,
        conflicts: [],
        id: null,
        revision: null,
      },
    ],
  })
  const [never] = (mastersJson([foreign], { leaseStore: 'etcd', listed: undefined }) as { masters: object[] }).masters
  assert.deepEqual(
    [never, (never as { live: unknown }).live],
    [{ ...never, neverEnds: true, leftSeconds: null }, false],
  )
})

test('time that passes is no change; a renewal is none either', () => {
  const later: MasterRow = { ...ready, ageMs: 185_000, life: { type: 'ends', leftMs: 15_000 }, revision: '42' }
  assert.equal(changeKey([later]), changeKey([ready]))
  assert.equal(changeKey([{ ...ready, verdict: 'unknown' }]), changeKey([ready]))
  for (const change of [
    { listed: false },
    { verdict: 'stale' },
    { leased: false },
    { conflicts: foreign.conflicts },
  ] as const) {
    assert.notEqual(changeKey([{ ...ready, ...change }]), changeKey([ready]))
  }
  assert.notEqual(changeKey([ready, foreign]), changeKey([ready]))
})

test('a terminal is drawn in place, no wider and no higher than it is', () => {
  const written: string[] = []
  const screen = new MastersScreen({ isTTY: true, columns: 8, rows: 4, write: (text) => written.push(text) })
  screen.show(['one', 'twenty-two', 'three', 'four'], 'a')
  screen.show(['one'], 'a')
  screen.show(['two'], 'a')
  assert.deepEqual(written, ['\u001b[0Jone\ntwenty-…\nthree\n', '\u001b[3A\u001b[0Jone\n', '\u001b[1A\u001b[0Jtwo\n'])
})

test('for programs nothing is put between the lines', () => {
  const written: string[] = []
  const screen = new MastersScreen({ write: (text) => written.push(text) }, { linewise: true })
  screen.show(['{}'], 'a')
  screen.show(['{"a":1}'], 'b')
  assert.deepEqual(written, ['{}\n', '{"a":1}\n'])
})

test('elsewhere the table is printed again when there is something new to see, in full width', () => {
  const written: string[] = []
  const screen = new MastersScreen({ columns: 8, write: (text) => written.push(text) })
  screen.show(['a long line, 1 s'], 'a')
  screen.show(['a long line, 2 s'], 'a')
  screen.show(['another line'], 'b')
  assert.deepEqual(written, ['a long line, 1 s\n', '\nanother line\n'])
})
