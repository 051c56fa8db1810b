import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followEtcdLeases, writeStaticList } from '../../src/drill/listings.ts'
import type { EtcdKv, PrefixSnapshot, WatchOptions } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { endpointSlices } from '../../src/kube/resources.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { Embedded } from '../apiserver/embedded.ts'

test('followEtcdLeases reports the leased addresses when they change, until its signal is aborted', async () => {
  const time = new VirtualClock()
  const etcd = new MemoryEtcd({ clock: time.view() }).client()
  const reported: (readonly string[])[] = []
  const end = new AbortController()
  let isOver = false
  const followed = followEtcdLeases(etcd, '/registry', (addresses) => reported.push(addresses), end.signal).then(() => {
    isOver = true
  })
  const { signal } = new AbortController()
  for (const address of ['192.0.2.2', '192.0.2.1']) {
    await etcd.create(`/registry/masterleases/${address}`, new Uint8Array(), { signal })
    await time.advance(0)
  }
  assert.deepEqual([reported.at(-1), isOver], [['192.0.2.1', '192.0.2.2'], false])
  end.abort()
  await followed
})

test('a watch event that arrives during the list applies only if its revision is later than the list', async () => {
  const listed = Promise.withResolvers<PrefixSnapshot>()
  const watched = Promise.withResolvers<WatchOptions>()
  const ended = Promise.withResolvers<void>()
  const etcd = {
    list: () => listed.promise,
    watch: (_: string, options: WatchOptions) => {
      watched.resolve(options)
      return ended.promise
    },
  } as unknown as EtcdKv
  const reported: (readonly string[])[] = []
  const { signal } = new AbortController()
  const followed = followEtcdLeases(etcd, '/registry', (addresses) => reported.push(addresses), signal)
  const { onChange } = await watched.promise
  const [first, second] = ['192.0.2.1', '192.0.2.2'].map((address) => `/registry/masterleases/${address}`)
  assert.ok(first && second)
  const change = { value: new Uint8Array(), previousValue: undefined }
  onChange(undefined)
  onChange([{ ...change, type: 'deleted', key: second, modRevision: 6n }])
  onChange([{ ...change, type: 'deleted', key: first, modRevision: 8n }])
  const item = { createRevision: 1n, modRevision: 7n, version: 1n, lease: 0n, value: new Uint8Array() }
  listed.resolve({ revision: 7n, items: [first, second].map((key) => ({ ...item, key })) })
  ended.resolve()
  await followed
  await new Promise(setImmediate)
  assert.deepEqual(reported.at(-1), ['192.0.2.2'])
})

test('writeStaticList creates an EndpointSlice of the address family of its addresses', async () => {
  for (const [addresses, addressType] of [
    [['192.0.2.1', '192.0.2.2'], 'IPv4'],
    [['2001:db8::1'], 'IPv6'],
  ] as const) {
    const { api } = await Embedded.started()
    await writeStaticList(api, addresses)
    const slice = await api.get(endpointSlices, { namespace: 'default', name: 'kubernetes' })
    assert.equal(slice.addressType, addressType)
    assert.deepEqual(
      slice.endpoints?.flatMap((endpoint) => endpoint.addresses),
      addresses,
    )
  }
})
