import assert from 'node:assert/strict'
import { test } from 'node:test'
import { preconditionFailed, qualifiedKind } from '../../src/apiserver/refusal.ts'
import { leases, services } from '../../src/kube/resources.ts'

test('a kind is named with its group, where it has one', () => {
  assert.equal(qualifiedKind(services), 'Service')
  assert.equal(qualifiedKind(leases), 'Lease.coordination.k8s.io')
  const { message } = preconditionFailed(leases, 'a', 'the UID differs')
  assert.equal(message, 'Operation cannot be fulfilled on Lease.coordination.k8s.io "a": the UID differs')
})
