import { test } from 'node:test'
import { surviveHostileRequests } from '../telemetry/hostile-requests.ts'

const seed = Number(process.env.HOSTILE_SEED ?? 1)

test('10,000 hostile requests to the health address leave /livez responsive, memory flat and the log unchanged', (t) =>
  surviveHostileRequests(t, { seed, count: 10_000, withinMs: 2_000 }))
