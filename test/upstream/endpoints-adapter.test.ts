// Our adapter manages one object, default/kubernetes. The runner puts it in the place of the object that a case calls
// for; all other objects keep their names. The server is stricter than upstream's recording client: the addresses of a
// slice must be in canonical form, and FQDN replaces the address type IP, which no server accepts any more. Endpoints
// to update carry the uid that was read with them, as our Endpoints always do, because a PUT without it creates
// Endpoints that are gone.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Endpoints, endpointSlices, endpoints as endpointsResource } from '../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { tryParseAddress } from '../../src/net/address.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { relocated } from './relocated.ts'
import { assertSame } from './same.ts'
import { type EndpointsAdapterCase, endpointsAdapter } from './tables.ts'
import { DEFAULT_NAMESPACE, World } from './world.ts'

const KINDS = [endpointsResource, endpointSlices]

function acceptable(original: EndpointsAdapterCase): EndpointsAdapterCase {
  return JSON.parse(JSON.stringify(original), (key, value: unknown) => {
    if (key === 'addressType' && value === 'IP') return 'FQDN'
    return typeof value === 'string' ? (tryParseAddress(value)?.text ?? value) : value
  }) as EndpointsAdapterCase
}

const calls = {
  get: (adapter: EndpointsAdapter) => adapter.getEndpoints(),
  async create(adapter: EndpointsAdapter, object: Endpoints) {
    await adapter.execute(
      { endpoints: { type: 'create', object, reasons: [] }, secondAddresses: [] },
      await adapter.read(),
    )
    return adapter.getEndpoints()
  },
  async update(adapter: EndpointsAdapter, endpoints: Endpoints) {
    const stored = await adapter.read()
    const metadata = { ...endpoints.metadata, uid: stored.endpoints?.metadata?.uid ?? 'of what is gone' }
    await adapter.execute(
      { endpoints: { type: 'update', object: { ...endpoints, metadata }, reasons: [] }, secondAddresses: [] },
      stored,
    )
    return adapter.getEndpoints()
  },
  async ensure(adapter: EndpointsAdapter, endpoints: Endpoints) {
    await adapter.execute(
      { endpoints: { type: 'none' }, secondAddresses: [] },
      { ...(await adapter.read()), endpoints },
    )
    return undefined
  },
}

for (const [table, cases] of Object.entries(endpointsAdapter.tables) as [
  keyof typeof calls,
  EndpointsAdapterCase[],
][]) {
  describe(`${endpointsAdapter.file}, ${table}`, () => {
    for (const original of cases) {
      test(original.name, async () => {
        const { namespace, name, endpoints } = original.call
        const { given, call, expect } = relocated(acceptable(original), {
          namespace,
          name: name ?? endpoints?.metadata.name ?? '',
        })
        const world = await World.start(given.objects, [DEFAULT_NAMESPACE])
        const adapter = new EndpointsAdapter({
          api: world.api,
          writer: new ObjectWriter({ api: world.api, metrics: prometheusMetrics() }),
        })

        const answer = calls[table](adapter, call.endpoints as Endpoints)
        if (expect.error === undefined) assertSame(await answer, expect.result, 'the answer')
        // Upstream's Get rejects; our adapter resolves with undefined.
        else if (table === 'get') assert.equal(await answer, undefined)
        // Our adapter also reports a conflict for Endpoints that exist already: they are read again.
        else await assert.rejects(answer, { code: table === 'ensure' ? expect.error.reason : 'Conflict' })
        await world.assertResult(expect, KINDS)
      })
    }
  })
}
