import assert from 'node:assert/strict'
import { test } from 'node:test'
import { surviveFuzzedRequests } from '../apiserver/fuzzed-requests.ts'

const seed = Number(process.env.FUZZ_SEED ?? 1)

test('the server survives 100,000 fuzzed requests, and its memory grows by less than 20 MiB', async (t) => {
  const { grownMiB } = await surviveFuzzedRequests(t, { seed, count: 100_000 })
  assert.ok(grownMiB < 20, `${grownMiB} MiB`)
})
