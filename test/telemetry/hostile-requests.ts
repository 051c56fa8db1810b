import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { startProgram, whenReady } from '../commands/command-line.ts'
import { residentMib } from '../peers/footprint.ts'
import { sendHostileRequests } from '../peers/hostile-requests.ts'

/**
 * Sends `count` hostile requests to the program. It must survive, use no more memory, log nothing about them, and
 * answer within `withinMs`.
 */
export async function surviveHostileRequests(
  t: TestContext,
  { seed, count, withinMs }: { seed: number; count: number; withinMs: number },
) {
  const program = await startProgram(t, ['run', '--embedded', '--health-bind-address', '127.0.0.1:0'])
  const { address, port } = await whenReady(program)
  // The code for them, and the buffers that wait for a collection, take memory once.
  await sendHostileRequests({ port: Number(port), seed: seed + 1, count: 300 + count / 2 })
  const beforeMib = residentMib(program.pid)
  const linesBefore = program.stderr().split('\n').length
  await sendHostileRequests({ port: Number(port), seed, count })
  const askedMs = performance.now()
  const answer = await fetch(`http://${address}/livez`, { headers: { connection: 'close' } })
  assert.equal(await answer.text(), 'ok')
  const tookMs = performance.now() - askedMs
  const grownMib = residentMib(program.pid) - beforeMib
  t.diagnostic(
    `seed ${seed}: ${count} requests, ${beforeMib.toFixed()} MiB and ${grownMib.toFixed()} more; then /livez in ${tookMs.toFixed()} ms`,
  )
  assert.ok(tookMs < withinMs, `/livez took ${tookMs.toFixed()} ms`)
  assert.ok(grownMib < 30, `${grownMib.toFixed()} MiB more`)
  assert.equal(program.stderr().split('\n').length - linesBefore, 0, program.stderr())
  program.kill('SIGTERM')
  assert.deepEqual(await program.exited, { code: 0, signal: null })
}
