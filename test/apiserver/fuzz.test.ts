import { test } from 'node:test'
import { inUnitOrFloor } from '../support/tier.ts'
import { surviveFuzzedRequests } from './fuzzed-requests.ts'

// test/long/fuzzed-requests.test.ts sends 100,000 requests, and checks the memory.

const count = inUnitOrFloor(500, 2000)

test(`${count} fuzzed requests cause no unexpected server errors`, async (t) => {
  await surviveFuzzedRequests(t, { seed: 1, count })
})
