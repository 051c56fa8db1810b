import { test } from 'node:test'
import { surviveHostileRequests } from './hostile-requests.ts'

// test:long checks how soon it answers on a quiet machine; a busy one may take seconds.
test('500 hostile requests to the health address leave /livez responsive, log nothing and take no lasting memory', (t) =>
  surviveHostileRequests(t, { seed: 1, count: 500, withinMs: 30_000 }))
