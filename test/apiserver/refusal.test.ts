import assert from 'node:assert/strict'
import { test } from 'node:test'
import { badRequest, FieldErrors, invalid, preconditionFailed, qualifiedKind } from '../../src/apiserver/refusal.ts'
import { leases, services } from '../../src/kube/resources.ts'

test('an error names a kind with its API group, if it has one', () => {
  assert.equal(qualifiedKind(services), 'Service')
  assert.equal(qualifiedKind(leases), 'Lease.coordination.k8s.io')
  const { message } = preconditionFailed(leases, 'a', 'the UID differs')
  assert.equal(message, 'Operation cannot be fulfilled on Lease.coordination.k8s.io "a": the UID differs')
})

test('a refusal shortens long values and long lists of causes', () => {
  const long = '"'.repeat(3_000_000)
  const errors = new FieldErrors()
  let values = 0
  const value = { toJSON: () => `${long}${values++}` }
  for (let index = 0; index < 10_000; index++) errors.invalid(`spec.list[${index}]`, value, 'must be short')
  for (let index = 0; index < 10_000; index++) errors.duplicate(long, long)
  assert.ok(values < 10, `${values} values were made into text`)
  const { httpStatus, body, message } = invalid({ kind: 'Foo', group: '' }, long, errors.causes)
  assert.equal(httpStatus, 422)
  assert.ok(message.startsWith('Foo "\\"\\"'))
  const { length } = JSON.stringify(body)
  assert.ok(length < 500_000, `${length} characters`)
  assert.ok(JSON.stringify(badRequest(long).body).length < 500_000)
})

test('causes stay in their order, and a truncated value is followed by the reason', () => {
  const errors = new FieldErrors()
  errors.invalid('spec.a', 'x'.repeat(1_000_000), 'must be short')
  errors.invalid('spec.b', ['x'.repeat(1_000_000)], 'must be short')
  errors.required('spec.c')
  const [text, list, missing] = errors.causes.map(({ field, message }) => `${field}: ${message}`)
  assert.match(text ?? '', /^spec\.a: Invalid value: "x{1000,}\.\.\.": must be short$/)
  assert.match(list ?? '', /^spec\.b: Invalid value: \["x{1000,}\.\.\.: must be short$/)
  assert.equal(missing, 'spec.c: Required value')
})
