import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../src/runtime/random.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { residentMib } from '../peers/footprint.ts'
import type { Fault } from '../peers/http-proxy.ts'
import { openOwner } from '../peers/owner.ts'
import type { Program } from '../peers/program.ts'
import { testSeed } from '../support/test-seed.ts'
import { EndpointsWorld, type Proxies, startControllers, startProxies } from './endpoints-world.ts'

const seed = testSeed()
const faultMs = 4_000
const shortOutageMs = 10_000
const outageMs = 30_000
const settledWithinMs = 60_000
/** Much more than temporary garbage, and much less than memory that is retained for every change. */
const mayGrowMib = 60

describe(`during churn of Services and Pods (seed ${seed})`, () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  let proxies: Proxies
  let program: Program
  let world: EndpointsWorld
  let warmMib: number

  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
    proxies = await startProxies(owner, cluster.server)
    world = await EndpointsWorld.start(cluster.server.api, seed)
    program = await startControllers(owner, proxies)
  })

  const random = seededRandom(seed, 'faults')
  const sometimes = (): boolean => random.next() < 0.5
  const isWatch = (path: string): boolean => path.includes('watch=')
  const failing =
    (matches: (path: string) => boolean, fault: Fault) =>
    async (ms: number): Promise<void> => {
      const { failed } = proxies.http
      proxies.http.fail(matches, fault)
      proxies.http.cutWatches()
      await sleep(ms)
      proxies.http.heal()
      assert.ok(proxies.http.failed > failed, 'the fault affected requests')
    }
  const troubles: Readonly<Record<string, (ms: number) => Promise<void>>> = {
    'half of all requests are answered with 500': failing(sometimes, { answer: 'status', status: 500 }),
    'all requests are answered with 500': failing(() => true, { answer: 'status', status: 500 }),
    'half of all requests are answered with 429 and Retry-After': failing(sometimes, {
      answer: 'status',
      status: 429,
      retryAfterSeconds: 1,
    }),
    'watches are answered with 410': failing(isWatch, { answer: 'status', status: 410 }),
    'half of all lists and watches are answered with 410': failing(
      (path) => sometimes() && (isWatch(path) || path.includes('limit=')),
      { answer: 'status', status: 410 },
    ),
    'half of all answers are cut off, also those of executed writes': failing((path) => sometimes() && !isWatch(path), {
      answer: 'torn',
    }),
    'watches are cut repeatedly': async (ms) => {
      for (let index = 0; index < 20; index++) {
        proxies.http.cutWatches()
        await sleep(ms / 20)
      }
    },
    'all connections are cut repeatedly': async (ms) => {
      for (let index = 0; index < 20; index++) {
        proxies.tcp.cut()
        await sleep(ms / 20)
      }
    },
    'all answers are delayed': async (ms) => {
      proxies.tcp.delay(700)
      await sleep(ms)
      proxies.tcp.delay(0)
    },
    'all requests remain without an answer': async (ms) => {
      proxies.tcp.blackHole(true)
      await sleep(ms)
      proxies.tcp.blackHole(false)
      proxies.tcp.cut()
    },
  }

  for (const [name, trouble] of Object.entries(troubles)) {
    test(`${name}: afterwards all endpoints are correct`, async (t) => {
      const { done } = world.churn
      world.go()
      await trouble(faultMs)
      const tookMs = await world.settled(settledWithinMs)
      program.assertRunning()
      t.diagnostic(`${world.churn.done - done} changes meanwhile; right after ${Math.round(tookMs)} ms`)
      assert.ok(world.churn.done > done)
    })
  }

  test('the memory of the program before the outages is recorded', () => {
    warmMib = residentMib(program.process.pid)
  })

  test('the server is unreachable for thirty seconds: afterwards all endpoints are correct', async (t) => {
    const { done } = world.churn
    world.go()
    await sleep(1_000)
    await proxies.tcp.refuse()
    await sleep(outageMs)
    await proxies.tcp.accept()
    const tookMs = await world.settled(settledWithinMs)
    t.diagnostic(`${world.churn.done - done} changes meanwhile; right after ${Math.round(tookMs)} ms`)
    program.assertRunning()
  })

  test('the server and its etcd are killed and restart after ten seconds: afterwards all endpoints are correct', async (t) => {
    const { etcd, server } = cluster
    world.go()
    await sleep(1_000)
    await Promise.all([server.kill(), etcd.kill()])
    await sleep(shortOutageMs)
    await etcd.start()
    await server.start()
    await sleep(1_000)
    const tookMs = await world.settled(settledWithinMs)
    t.diagnostic(`right after ${Math.round(tookMs)} ms`)
    program.assertRunning()
  })

  test('the server hangs for ten seconds: afterwards all endpoints are correct', async (t) => {
    const { server } = cluster
    world.go()
    await sleep(1_000)
    server.pause()
    await sleep(shortOutageMs)
    server.resume()
    await sleep(1_000)
    const tookMs = await world.settled(settledWithinMs)
    t.diagnostic(`right after ${Math.round(tookMs)} ms`)
    program.assertRunning()
  })

  test('after the outages the program uses no more memory than before and has logged no unexpected error', (t) => {
    const nowMib = residentMib(program.process.pid)
    t.diagnostic(`${warmMib.toFixed(0)} MiB before, ${nowMib.toFixed(0)} MiB after; ${world.churn.done} changes`)
    assert.ok(nowMib < warmMib + mayGrowMib, `${nowMib} MiB, ${warmMib} before`)
    assert.equal(program.logged(/"level":"error"/).filter(({ message }) => !/retrying/.test(message)).length, 0)
  })
})
