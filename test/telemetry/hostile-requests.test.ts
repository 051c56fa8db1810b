import { test } from 'node:test'
import { surviveHostileRequests } from './hostile-requests.ts'

test('500 hostile requests at the health address change nothing', (t) =>
  surviveHostileRequests(t, { seed: 1, count: 500 }))
