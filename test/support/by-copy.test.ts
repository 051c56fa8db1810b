import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer } from '../../src/apiserver/api-server.ts'
import { namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { byCopy, byReference } from './by-copy.ts'

for (const [transport, shares] of [
  [byCopy, false],
  [byReference, true],
] as const) {
  test(`${transport.name}: answers and events ${shares ? 'share' : 'do not share'} their parts`, async () => {
    const parts = { clock: new VirtualClock().view(), random: seededRandom(1, 'a test') }
    const api = restKubeApi({ ...parts, transport: transport(createApiServer(parts)) })
    await api.create(namespaces, { metadata: { name: 'shop' } })
    const stop = new AbortController()
    const found: unknown[] = []
    for (let read = 0; read < 2; read++) {
      found.push((await api.get(namespaces, { name: 'shop' })).metadata)
      for await (const event of api.watch(namespaces, { signal: stop.signal })) {
        if (event.type === 'ADDED') found.push(event.object.metadata)
        break
      }
    }
    assert.equal(found.length, 4)
    for (const one of found) assert.deepEqual(one, found[0])
    assert.equal(new Set(found).size, shares ? 1 : found.length)
  })
}
