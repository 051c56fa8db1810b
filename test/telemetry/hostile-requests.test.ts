import { test } from 'node:test'
import { surviveHostileRequests } from './hostile-requests.ts'

// How soon it answers on a quiet machine is test:long's affair; a busy one may take seconds.
test('500 hostile requests at the health address change nothing', (t) =>
  surviveHostileRequests(t, { seed: 1, count: 500, withinMs: 30_000 }))
