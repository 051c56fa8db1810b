import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasSameState, type MemberState, snapshotOf } from '../../src/verify/member-state.ts'
import { healthy } from './fleet-story.ts'

const state: MemberState = { name: 'a', address: '192.0.2.1', ...healthy }

test('a snapshot copies the whole state, and a difference in any field but a count of hits makes the states unequal', () => {
  const copy = snapshotOf(state)
  assert.deepEqual(copy, state)
  assert.ok(hasSameState(copy, state))
  for (const field of Object.keys(state))
    assert.equal(hasSameState({ ...state, [field]: 'another' }, state), field === 'disturbances', field)
})
