import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isPlaceholder } from '../../src/endpointslice/slices-plan.ts'
import type { EndpointSlice } from '../../src/kube/resources.ts'

const headless = { 'service.kubernetes.io/headless': '' }
const labels = { 'kubernetes.io/service-name': 'shop', team: 'a' }

function sliceWith(labels: Readonly<Record<string, string>>): EndpointSlice {
  return { metadata: { labels }, addressType: 'IPv4', endpoints: [], ports: [] } as unknown as EndpointSlice
}

test('a placeholder is as good with the headless label as without it: upstream sees no difference either', () => {
  assert.ok(isPlaceholder(sliceWith({ ...labels, ...headless }), labels))
  assert.ok(isPlaceholder(sliceWith(labels), { ...labels, ...headless }))
})

test('any other label makes it another slice', () => {
  assert.ok(!isPlaceholder(sliceWith({ ...labels, team: 'b' }), labels))
  assert.ok(!isPlaceholder(sliceWith({ ...labels, stray: 'yes' }), labels))
  assert.ok(!isPlaceholder(sliceWith({ team: 'a' }), labels))
})
