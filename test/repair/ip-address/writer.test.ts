import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IpAddress } from '../../../src/kube/resources.ts'
import { type IpAddressWrite, IpAddressWriter } from '../../../src/repair/ip-address/writer.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { ScriptedApi } from '../../kube/scripted-api.ts'

test('each planned write is made once, in an order of the master’s own', async () => {
  const names = Array.from({ length: 3 }, (_, index) => `10.96.0.${index}`)
  const stored = (name: string): IpAddress => ({ metadata: { name, uid: name, resourceVersion: '1' } }) as IpAddress
  const writes = names.map((name) => ({ type: 'delete', ipAddress: stored(name) }) as unknown as IpAddressWrite)
  const orders: unknown[] = []
  for (let seed = 1; seed <= 20; seed++) {
    const api = new ScriptedApi()
    api.answer = () => ({})
    const writer = new IpAddressWriter({
      api,
      random: seededRandom(seed, 'writer'),
      clock: new VirtualClock().view(),
      current: stored,
      holdersOf: () => [],
    })
    const outcomes = await writer.write(writes, new AbortController().signal)
    assert.deepEqual(
      outcomes.map(({ write, result }) => result === 'done' && writes.includes(write)),
      names.map(() => true),
    )
    const order = api.asked.map(({ of }) => (of as { readonly name: string }).name)
    assert.deepEqual(order.toSorted(), names.toSorted())
    orders.push(order.join())
  }
  assert.ok(new Set(orders).size > 3)
})
