import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices, endpoints, type KubeObject, type Resource, services } from '../../src/kube/resources.ts'
import type { ApiResponse, Transport } from '../../src/kube/transport.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { OtherWritersWorld } from './other-writers-world.ts'

type Fields = Readonly<Record<string, unknown>>

/** What a server answers in place of the fields of `default/kubernetes`. */
const bodies: readonly (readonly [resource: Resource<KubeObject>, fields: Fields])[] = [
  ...[5, [null], [{ addresses: [null] }]].map((subsets) => [endpoints, { subsets }] as const),
  ...[5, [null], [{ addresses: [null] }]].map((value) => [endpointSlices, { endpoints: value }] as const),
  ...[null, { ports: [null] }].map((spec) => [services, { spec }] as const),
]

/** A transport whose answers and events about `plural` have other fields while there are any. */
function spoiling(inner: Transport, plural: string, fields: () => Fields | undefined): Transport {
  const spoiled = (object: Fields): Fields => ({ ...object, ...fields() })
  async function* events(stream: AsyncIterable<unknown>) {
    for await (const event of stream as AsyncIterable<{ readonly type: string; readonly object: Fields }>)
      yield event.type === 'BOOKMARK' ? event : { ...event, object: spoiled(event.object) }
  }
  const changed = (response: ApiResponse): ApiResponse => {
    if ('stream' in response) return { ...response, stream: events(response.stream) as typeof response.stream }
    const body = response.body as Fields
    const items = body.items as readonly Fields[] | undefined
    return { ...response, body: items === undefined ? spoiled(body) : { ...body, items: items.map(spoiled) } }
  }
  return {
    async send(request, signal) {
      const response = await inner.send(request, signal)
      return response.status < 300 && request.path.includes(`/${plural}`) ? changed(response) : response
    },
    close: () => inner.close(),
  }
}

test('while the server sends malformed objects, a master lives, renews its lease and leaves the list as it is', async (t) => {
  for (const [resource, fields] of bodies) {
    const world = new OtherWritersWorld(t)
    let now: Fields | undefined
    const through = (inner: Transport): Transport => spoiling(inner, resource.plural, () => now)
    const { api } = world.connectFaulty('apiserver-bootstrap', through)
    const master = world.start(1, {}, { api })
    world.start(2)
    await world.time.advance(20_000)
    assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'])
    const version = async (): Promise<string | undefined> =>
      (await world.connect('reader').get(resource, KUBERNETES_SERVICE)).metadata?.resourceVersion
    const other = world.connect('other')
    now = fields
    // The event of this write is malformed, and so is the list that the master then requests.
    await other.patch(resource, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { annotations: { a: 'b' } } } })
    const before = await version()
    await world.time.advance(120_000)
    // A master whose lease were not renewed would leave the list that the other one writes.
    assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'], JSON.stringify(fields))
    assert.equal(await version(), before)
    const lost = master.logged(/^lost the API server$/)
    assert.equal(lost.length, 1, JSON.stringify(fields))
    assert.match(String(lost[0]?.fields.reason), / is not (a list of (objects|strings)|an object)$/)
    now = undefined
    await world.time.advance(20_000)
    assert.equal(master.logged(/^the API server is back$/).length, 1)
    // The master watches again: it corrects the list, which a write by another client has emptied.
    await other.update(endpoints, { ...(await other.get(endpoints, KUBERNETES_SERVICE)), subsets: [] })
    await world.time.advance(20_000)
    assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'])
    assert.deepEqual(master.logged(/failed inside this program/), [])
  }
})
