// Our reconciler manages one object, default/kubernetes. It takes the place of the Service of a case.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../src/kubernetes-service/leases/memory.ts'
import { parseAddress } from '../../src/net/address.ts'
import { startMaster } from '../kubernetes-service/membership/master-in-process.ts'
import { relocated } from './relocated.ts'
import { type LeaseReconcilerCase, leaseReconciler } from './tables.ts'
import { DEFAULT_NAMESPACE, World } from './world.ts'

const { signal } = new AbortController()

for (const [table, cases] of Object.entries(leaseReconciler.tables)) {
  describe(`${leaseReconciler.file}, ${table}`, () => {
    for (const original of cases) {
      test(original.name, () => run(relocated(original, { namespace: 'default', name: original.call.serviceName })))
    }
  })
}

async function run({ given, call, expect }: LeaseReconcilerCase): Promise<void> {
  const world = await World.start(given.objects, [DEFAULT_NAMESPACE])
  const holder: Holder = {
    instanceId: 'this',
    host: 'this.test',
    startedAt: '2026-01-01T00:00:00Z',
    addresses: [call.ip],
    ports: { securePort: call.endpointPorts[0]?.port ?? 0, nodePort: 0 },
    state: 'ready',
  }
  const registry = new MemoryLeaseRegistry(world.clock)
  const leases = new MemoryLeases(registry, { ttlMs: 60_000 })
  registry.addForeign(...given.leases.filter((address) => address !== call.ip))
  if (given.leases.includes(call.ip)) await leases.update(holder)
  // A master that removes itself in the first step must not join before.
  const answer: ReadinessAnswer =
    call.steps[0] === 'reconcile'
      ? { answered: true, ready: true, checks: [] }
      : { answered: false, reason: 'not started' }
  const master = startMaster(world, leases, holder, { ports: call.endpointPorts, answer })
  const reconciler = master.runner

  const ip = parseAddress(call.ip)
  for (const step of call.steps) {
    switch (step) {
      case 'reconcile':
        await reconciler.reconcileEndpoints(ip, call.endpointPorts, call.reconcilePorts === true, signal)
        break
      // A master that leaves for good does this at once: it renews nothing afterwards.
      case 'stop':
        break
      case 'remove': {
        await reconciler.refreshMembers(signal)
        const out = await reconciler.stop('always', signal)
        assert.equal(out === 'not-listed' ? 'LeaseNotFound' : undefined, expect.error?.reason)
        break
      }
    }
  }
  await master.kill()
  await world.assertResult(expect, [endpoints, endpointSlices])
  const listed = (await leases.list()).map((lease) => lease.address)
  assert.deepEqual(listed.sort(), expect.leases)
}
