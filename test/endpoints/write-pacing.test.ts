import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cluster } from './cluster.ts'

test('with write pauses the first change is written at once, and later ones together, without loss', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const stop = await cluster.lead({ writePause: () => 100 })
  cluster.written()
  const putAtMs: number[] = []
  for (let at = 0; at < 400; at += 10) {
    if (at < 250) await cluster.pod(`pod-${at}`, { ip: `192.0.2.${1 + at / 10}` })
    await cluster.pass(10)
    for (const _ of cluster.written()) putAtMs.push(at)
  }
  assert.deepEqual(
    putAtMs,
    [0, 100, 200, 300].map((at) => at - (at === 0 ? 0 : 10)),
  )
  assert.equal((await cluster.listed('foo'))[0]?.split(' ').length, 25 + 1)
  await stop()
})

test('the write pause may depend on the number of addresses', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  const asked: number[] = []
  const writePause = (addresses: number): number => {
    asked.push(addresses)
    return addresses * 1_000
  }
  const stop = await cluster.lead({ writePause }, 3_000)
  cluster.written()
  for (const name of ['b', 'c']) {
    await cluster.pod(name, { ip: `192.0.2.1${name === 'b' ? 1 : 2}` })
    await cluster.pass(900)
  }
  assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
  await cluster.pass(1_000)
  assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
  assert.deepEqual(asked, [1, 2, 3])
  await stop()
})

test('the deletion of a Service and its recreation do not wait for the write pause', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const stop = await cluster.lead({ writePause: () => 60_000 })
  await cluster.deleteService('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'DELETE other/foo 200'])
  await cluster.service('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  await stop()
})

test('a refused write is retried after growing intervals, whatever the write pause', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead({ writePause: (addresses) => 20 * addresses })
  for (const host of [1, 2, 3, 4, 5]) await cluster.pod(`pod-${host}`, { ip: `192.0.2.${host}` })
  cluster.fault({ fault: { type: 'status', status: 403 }, methods: ['PUT', 'POST'] })
  await cluster.service('foo')
  await cluster.pass(10_000)
  assert.equal(cluster.written().length, 11, 'after 0, 5, 15, 35, … 5,115 ms')
  await stop()
})
