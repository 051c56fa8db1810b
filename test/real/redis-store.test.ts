import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  createMaster,
  defineMaster,
  endpoints,
  KUBERNETES_SERVICE,
  prometheusMetrics,
  restKubeApi,
  silentLogger,
  systemClock,
} from '../../src/index.ts'
import { createApiServer, inProcessReadiness, inProcessTransport, seededRandom } from '../../src/testing.ts'
import { testRedisLeases } from '../examples/redis-contract.ts'
import { RedisLeases } from '../examples/redis-leases.ts'
import { openOwner } from '../peers/owner.ts'
import { type Redis, startRedis } from '../peers/redis.ts'
import { throughout, untilPasses } from '../peers/until.ts'

describe('a custom lease store on a real Redis', () => {
  const owner = openOwner({ after })
  let redis: Redis

  before(async () => {
    redis = await startRedis(owner)
  })

  testRedisLeases(() => redis.port)

  test('in a fleet of three a frozen Redis removes none, a withdrawn master leaves, a stopped one leaves with its lease', async (t) => {
    const random = seededRandom(1, 'fleet')
    const server = createApiServer({ clock: systemClock, random })
    const listed = async (): Promise<readonly string[]> => {
      const { subsets = [] } = await api.get(endpoints, KUBERNETES_SERVICE)
      return subsets.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip))
    }
    const api = restKubeApi({ transport: inProcessTransport(server), clock: systemClock, random })
    const ports = { api, readiness: inProcessReadiness(server), clock: systemClock, random, logger: silentLogger }
    const start = (address: string, onShutdown: 'keep' | 'withdraw') => {
      const settings = { advertiseAddress: address, leaseTtl: '4s', reconcileInterval: '2s', onShutdown }
      const leases = new RedisLeases({
        port: redis.port,
        fleet: 'three masters',
        ttlMs: 6_000,
        pollMs: 100,
        warn: assert.fail,
      })
      const master = createMaster(defineMaster(settings, `host of ${address}`), {
        ...ports,
        metrics: prometheusMetrics(),
        leases,
      })
      const stop = new AbortController()
      const ended = master.run(stop.signal)
      const end = async (): Promise<void> => {
        stop.abort()
        await ended
      }
      t.after(end)
      return end
    }
    const [dies, leaves] = [start('192.0.2.1', 'keep'), start('192.0.2.2', 'withdraw')]
    start('192.0.2.3', 'keep')
    const whenListed = (...addresses: readonly string[]): Promise<void> =>
      untilPasses(`${addresses} in the list`, async () => assert.deepEqual(await listed(), addresses), {
        withinMs: 30_000,
      })
    await whenListed('192.0.2.1', '192.0.2.2', '192.0.2.3')
    await throughout(6_000, async () => assert.equal((await listed()).length, 3))

    redis.process.signal('SIGSTOP')
    await throughout(1_500, async () => assert.equal((await listed()).length, 3))
    redis.process.signal('SIGCONT')
    await throughout(3_000, async () => assert.equal((await listed()).length, 3))

    await leaves()
    await whenListed('192.0.2.1', '192.0.2.3')
    await dies()
    assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.3'], 'the lease has not expired yet')
    await whenListed('192.0.2.3')
  })
})
