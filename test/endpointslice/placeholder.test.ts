import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isPlaceholder } from '../../src/endpointslice/slices-plan.ts'
import type { EndpointSlice } from '../../src/kube/resources.ts'

const headless = { 'service.kubernetes.io/headless': '' }
const labels = { 'kubernetes.io/service-name': 'shop', team: 'a' }

function sliceWith(labels: Readonly<Record<string, string>>): EndpointSlice {
  return { metadata: { labels }, addressType: 'IPv4', endpoints: [], ports: [] } as unknown as EndpointSlice
}

test('a placeholder matches with or without the headless label, as upstream', () => {
  assert.ok(isPlaceholder(sliceWith({ ...labels, ...headless }), labels))
  assert.ok(isPlaceholder(sliceWith(labels), { ...labels, ...headless }))
})

test('a slice with any other label difference is no placeholder', () => {
  assert.ok(!isPlaceholder(sliceWith({ ...labels, team: 'b' }), labels))
  assert.ok(!isPlaceholder(sliceWith({ ...labels, other: 'yes' }), labels))
  assert.ok(!isPlaceholder(sliceWith({ team: 'a' }), labels))
})
