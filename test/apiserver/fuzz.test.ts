import { test } from 'node:test'
import { inUnitOrFloor } from '../support/tier.ts'
import { surviveFuzzedRequests } from './fuzzed-requests.ts'

// 100,000 of them, and their memory: test/long/fuzzed-requests.test.ts.

const count = inUnitOrFloor(500, 2000)

test(`${count} fuzzed requests break nothing`, async (t) => {
  await surviveFuzzedRequests(t, { seed: 1, count })
})
