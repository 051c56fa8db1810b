import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLike, type MemberState, snapshotOf } from '../../src/verify/member-state.ts'

const state: MemberState = {
  name: 'a',
  address: '192.0.2.1',
  kind: 'apiserver-bootstrap',
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  withdrawsOnStop: true,
  withdrawsEvenIfLast: false,
  leavesWhenUnready: true,
  running: true,
  stopping: false,
  ended: false,
  frozen: false,
  connected: true,
  delayMs: 0,
  answering: true,
  ready: true,
  serves: true,
  etcdFails: false,
  impaired: 'no',
  clientsMeet: 'served',
  healthy: true,
  renewing: true,
  storeFull: false,
  lifeCount: 1,
  hasBeenReady: true,
  connectionResets: 0,
  failure: undefined,
}

test('a snapshot has all of a state, and one difference in it makes another state', () => {
  const copy = snapshotOf(state)
  assert.deepEqual(copy, state)
  assert.ok(isLike(copy, state))
  const fields = Object.keys(state).filter((field) => !['name', 'address', 'kind'].includes(field))
  for (const field of fields) assert.equal(isLike({ ...state, [field]: 'another' }, state), false, field)
})
