import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type LeaseLifetime, type LeaseWorld, masterLeasesContract } from '../../src/testing.ts'
import { overwrite, RedisLeases } from './redis-leases.ts'

/** Tests the store on a Redis at a port of the loopback address, which is known once the tests run. */
export function testRedisLeases(portOf: () => number): void {
  let worlds = 0
  /** Called once for each case. All clients of a world share one store, which no other case uses. */
  function makeWorld(lifetime: LeaseLifetime): LeaseWorld {
    const ttlMs = lifetime === 'lasting' ? 60_000 : 4_000
    const place = { port: portOf(), fleet: `contract ${++worlds}` }
    return {
      ttlMs,
      open: () => new RedisLeases({ ...place, ttlMs, pollMs: 50, warn: () => {} }),
      pass: (ms) => sleep(ms),
      spoil: (holder, text) => overwrite(place, holder, text),
      async close() {},
    }
  }
  for (const { name, run } of masterLeasesContract(makeWorld)) test(name, run)
}
