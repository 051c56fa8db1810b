import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteRequest, writeOptions } from '../../src/apiserver/request-options.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'

// Compared with kube-apiserver: test/conformance/scenarios/writes.ts.

function requestOf(method: ApiRequest['method'], query: string, body?: unknown, agent = 'tester/1.0'): ApiRequest {
  return { method, path: '/', query: [...new URLSearchParams(query)], headers: { 'user-agent': agent }, body }
}

for (const [query, body, message] of [
  ['', { propagationPolicy: 'Junk' }, /propagationPolicy: Unsupported value: "Junk": .* "Orphan", "nil"$/],
  ['', { dryRun: ['All', 'Junk'] }, /dryRun: Unsupported value: \["All","Junk"\]: supported values: "All"$/],
  ['dryRun=All&dryRun=Junk', undefined, /dryRun: Unsupported value/],
  ['propagationPolicy=', undefined, /propagationPolicy: Unsupported value: ""/],
  ['', { orphanDependents: true, propagationPolicy: 'Orphan' }, /cannot be both set$/],
] as const) {
  test(`a deletion with ${query || JSON.stringify(body)} returns 422`, () => {
    assert.throws(() => deleteRequest(requestOf('DELETE', query, body)), { httpStatus: 422, message })
  })
}

for (const [query, body] of [
  ['', { kind: 'Pod', apiVersion: 'v1' }],
  ['', []],
  ['', { gracePeriodSeconds: 1e10 }],
  ['gracePeriodSeconds=x', undefined],
] as const) {
  test(`a deletion with ${query || JSON.stringify(body)} returns 400`, () => {
    assert.throws(() => deleteRequest(requestOf('DELETE', query, body)), { httpStatus: 400 })
  })
}

test('the body of a deletion overrides its query parameters, and a negative grace period becomes 1 second', () => {
  const { dryRun, gracePeriodSeconds } = deleteRequest(requestOf('DELETE', 'dryRun=All', { gracePeriodSeconds: -1 }))
  assert.deepEqual([dryRun, gracePeriodSeconds], [false, 1])
  assert.equal(deleteRequest(requestOf('DELETE', 'dryRun=All&gracePeriodSeconds=-5')).gracePeriodSeconds, 1)
  assert.equal(deleteRequest(requestOf('DELETE', '', { orphanDependents: true })).propagation, 'Orphan')
  assert.equal(deleteRequest(requestOf('DELETE', '', { orphanDependents: false })).propagation, 'Background')
  assert.equal(deleteRequest(requestOf('DELETE', 'propagationPolicy=Foreground')).propagation, 'Foreground')
})

for (const [method, operation, query, message] of [
  [
    'POST',
    'Update',
    'fieldManager=a%0Ab',
    /^CreateOptions.* Invalid value: "a\\nb": invalid character U\+000A \(at position 1\)$/,
  ],
  ['PUT', 'Update', 'fieldManager=%C3%A9%07', /^UpdateOptions.* "é\\a": invalid character U\+0007 \(at position 2\)$/],
  ['PATCH', 'Apply', `fieldManager=${'a'.repeat(129)}`, /^PatchOptions.* Too long: may not be more than 128 bytes$/],
  ['PATCH', 'Apply', 'fieldManager=', /fieldManager: Required value: is required for apply patch$/],
  ['PATCH', 'Update', 'force=true', /force: Forbidden: may not be specified for non-apply patch$/],
  ['POST', 'Update', 'dryRun=Junk', /dryRun: Unsupported value: \["Junk"\]: supported values: "All"$/],
  ['POST', 'Update', 'fieldValidation=Junk', /"Junk": supported values: "", "Ignore", "Strict", "Warn"$/],
] as const) {
  test(`a ${method} with ${query.slice(0, 30)} returns 422`, () => {
    assert.throws(() => writeOptions(requestOf(method, query), operation), { httpStatus: 422, message })
  })
}

test('without fieldManager the manager is the printable, shortened name of the user agent', () => {
  const nameFor = (agent: string): string => writeOptions(requestOf('POST', '', {}, agent), 'Update').manager.name
  assert.equal(nameFor('a\x07b/1.0'), 'ab')
  assert.equal(nameFor('é'.repeat(100)), 'é'.repeat(64))
  assert.equal(nameFor('/1.0'), 'unknown')
})
