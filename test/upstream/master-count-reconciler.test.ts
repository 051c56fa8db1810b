// Our reconciler manages one object, default/kubernetes. It takes the place of the Service of a case. Upstream
// reconciles once. Here `refreshMembers` announces before it that an interval has begun, as the controller does.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { MasterCountEndpointReconciler } from '../../src/kubernetes-service/reconcilers/master-count.ts'
import { parseAddress } from '../../src/net/address.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { relocated } from './relocated.ts'
import { type MasterCountReconcilerCase, masterCountReconciler } from './tables.ts'
import { DEFAULT_NAMESPACE, World } from './world.ts'

const { signal } = new AbortController()

for (const [table, cases] of Object.entries(masterCountReconciler.tables)) {
  describe(`${masterCountReconciler.file}, ${table}`, () => {
    for (const original of cases) {
      test(original.name, () => run(relocated(original, { namespace: 'default', name: original.call.serviceName })))
    }
  })
}

async function run({ given, call, expect }: MasterCountReconcilerCase): Promise<void> {
  const world = await World.start(given.objects, [DEFAULT_NAMESPACE])
  const ip = parseAddress(call.ip)
  const reconciler = new MasterCountEndpointReconciler({
    adapter: new EndpointsAdapter({
      api: world.api,
      writer: new ObjectWriter({ api: world.api, metrics: prometheusMetrics() }),
    }),
    logger: silentLogger,
    address: ip,
    count: call.masterCount,
  })
  for (const step of call.steps) {
    switch (step) {
      case 'reconcile':
        await reconciler.refreshMembers(signal)
        await reconciler.reconcileEndpoints(ip, call.endpointPorts, call.reconcilePorts === true, signal)
        break
      case 'stop':
        reconciler.stopReconciling()
        break
      case 'remove':
        await reconciler.removeEndpoints(ip, call.endpointPorts, signal)
        break
    }
  }
  assert.ok(call.steps.length > 0)
  await world.assertResult(expect, [endpoints, endpointSlices])
}
