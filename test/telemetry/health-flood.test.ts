import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startProgram, whenReady } from '../commands/command-line.ts'
import { residentMib } from '../peers/footprint.ts'
import { spawnChild } from '../support/spawn-child.ts'

const flood = fileURLToPath(new URL('../peers/health-flood.ts', import.meta.url))

test('six clients that pipeline 4 MB of GET /metrics without reading neither block /livez nor exhaust the memory', async (t) => {
  const program = await startProgram(t, ['run', '--embedded', '--health-bind-address', '127.0.0.1:0'])
  const { address, port } = await whenReady(program)
  const livez = async (): Promise<number> => {
    const askedMs = performance.now()
    const answer = await fetch(`http://${address}/livez`, { headers: { connection: 'close' } })
    assert.equal(await answer.text(), 'ok')
    return performance.now() - askedMs
  }
  await (await fetch(`http://${address}/metrics`)).text()
  const quietMib = residentMib(program.pid)

  const flooding = await spawnChild(t, process.execPath, [flood, port, '6', '4'])
  await flooding.output(/flooding/)
  const latenciesMs: number[] = []
  for (const endMs = performance.now() + 8000; performance.now() < endMs; await sleep(100)) {
    latenciesMs.push(await livez())
  }
  const grownMib = residentMib(program.pid) - quietMib
  const longestMs = Math.max(...latenciesMs)
  t.diagnostic(`/livez took ${longestMs.toFixed()} ms at most; ${grownMib.toFixed()} MiB more`)
  // `npm run bench -- flood` measures it on a quiet machine; a busy one may take seconds.
  assert.ok(longestMs < 30_000, `/livez took ${longestMs.toFixed()} ms`)
  assert.ok(grownMib < 40, `${grownMib.toFixed()} MiB more`)
})

test('300 silent connections do not prevent /livez from answering', async (t) => {
  const program = await startProgram(t, ['run', '--embedded', '--health-bind-address', '127.0.0.1:0'])
  const [, address = '', port = ''] = await program.output(/"health":"([^"]+:(\d+))"/)
  const silent = Array.from({ length: 300 }, () => connect(Number(port), '127.0.0.1').on('error', () => {}))
  t.after(() => {
    for (const socket of silent) socket.destroy()
  })
  const answer = await fetch(`http://${address}/livez`, { headers: { connection: 'close' } })
  assert.equal(await answer.text(), 'ok')
})
