import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IpAddress, Service } from '../../../src/kube/resources.ts'
import { newIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { type IpAddressWrite, IpAddressWriter } from '../../../src/repair/ip-address/writer.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { ScriptedApi } from '../../kube/scripted-api.ts'

test('each planned write is made once, in an order that differs between masters', async () => {
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

/** A writer that has created the IPAddress of Service default/web, and found that the Service has the address. */
async function created() {
  const name = '10.96.0.7'
  const web = { metadata: { namespace: 'default', name: 'web' }, spec: { clusterIP: name } } as unknown as Service
  const planned = newIpAddress(name, { namespace: 'default', name: 'web' })
  const asUid = (uid: string) => ({ ...planned, metadata: { ...planned.metadata, uid } }) as IpAddress
  const seen = { holders: [web] as readonly Service[], current: undefined as IpAddress | undefined }
  const api = new ScriptedApi()
  api.answer = ({ call }) => (call === 'create' ? asUid('made') : web)
  const time = new VirtualClock()
  const writer = new IpAddressWriter({
    ...{ api, random: seededRandom(1, 'writer'), clock: time.view() },
    current: () => seen.current,
    holdersOf: () => seen.holders,
  })
  const { signal } = new AbortController()
  await writer.write([{ type: 'create', ipAddress: planned } as unknown as IpAddressWrite], signal)
  await writer.verify([], signal)
  seen.current = asUid('made')
  const calls = () => api.asked.splice(0).map(({ call }) => call)
  assert.deepEqual(calls(), ['create', 'get'])
  return { time, seen, asUid, calls, verify: async () => [...(await writer.verify([name], signal))] }
}

test('a created IPAddress is verified two seconds after the last Service released its address, not the first', async () => {
  const { time, seen, calls, verify } = await created()
  const { holders } = seen
  seen.holders = []
  assert.deepEqual(await verify(), ['10.96.0.7'])
  await time.advance(1_000)
  seen.holders = holders
  assert.deepEqual(await verify(), [])
  await time.advance(1_000)
  seen.holders = []
  assert.deepEqual(await verify(), ['10.96.0.7'])
  await time.advance(1_999)
  assert.deepEqual([await verify(), calls()], [['10.96.0.7'], []])
  await time.advance(1)
  assert.deepEqual([await verify(), calls()], [[], ['get']])
})

test('an IPAddress that another client created in place of our own is not verified', async () => {
  const { time, seen, asUid, calls, verify } = await created()
  seen.current = asUid('of another')
  seen.holders = []
  for (let second = 0; second < 4; second++) {
    await time.advance(1_000)
    assert.deepEqual([await verify(), calls()], [[], []])
  }
})
