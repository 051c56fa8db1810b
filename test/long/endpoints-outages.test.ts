import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { residentMib } from '../peers/footprint.ts'
import { openOwner } from '../peers/owner.ts'
import { EndpointsWorld, startControllers, startProxies } from '../real/endpoints-world.ts'

const rounds = 24
const outageMs = 5_000
const settledWithinMs = 60_000
const mayGrowMib = 25

test(`after each of ${rounds} outages during churn all endpoints are correct, and the memory of the program does not grow`, async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const proxies = await startProxies(owner, server)
  const seed = Date.now() % 1_000_000
  t.diagnostic(`seed ${seed}`)
  const world = await EndpointsWorld.start(server.api, seed)
  const program = await startControllers(owner, proxies)
  const sizes: number[] = []
  for (let round = 1; round <= rounds; round++) {
    world.go()
    await sleep(1_000)
    await proxies.tcp.refuse()
    await sleep(outageMs)
    await proxies.tcp.accept()
    proxies.http.fail(() => Math.random() < 0.5, { answer: 'status', status: 500 })
    await sleep(1_000)
    proxies.http.heal()
    await world.settled(settledWithinMs)
    program.assertRunning()
    sizes.push(residentMib(program.process.pid))
  }
  t.diagnostic(`${world.churn.done} changes; MiB after each outage: ${sizes.map(Math.round).join(' ')}`)
  const quarter = rounds / 4
  const early = Math.max(...sizes.slice(quarter, 2 * quarter))
  const late = Math.max(...sizes.slice(-quarter))
  assert.ok(late < early + mayGrowMib, `${late} MiB, ${early} before`)
})
