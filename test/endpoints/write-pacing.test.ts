import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextWriteDelayMs } from '../../src/endpoints/write-pacing.ts'
import { Cluster } from './cluster.ts'

test('the first write waits for nothing, later ones until they are far enough from the last', () => {
  assert.equal(nextWriteDelayMs(undefined, 5, 100), 0)
  assert.equal(nextWriteDelayMs(1_000, 1_000, 100), 100)
  assert.equal(nextWriteDelayMs(1_000, 1_099, 100), 1)
  assert.equal(nextWriteDelayMs(1_000, 1_100, 100), 0)
  assert.equal(nextWriteDelayMs(1_000, 9_000, 100), 0)
  assert.equal(nextWriteDelayMs(1_000, 1_000, 0), 0)
})

test('with a distance the first change is written at once, and all that follow it together, none lost', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const stop = await cluster.lead({ minWriteDistanceMs: 100 })
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

test('the distance may grow with what is written', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  const asked: number[] = []
  const minWriteDistanceMs = (addresses: number): number => {
    asked.push(addresses)
    return addresses * 1_000
  }
  const stop = await cluster.lead({ minWriteDistanceMs }, 3_000)
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

test('a Service that goes is not waited for, nor one that comes in its place', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const stop = await cluster.lead({ minWriteDistanceMs: 60_000 })
  await cluster.deleteService('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'DELETE other/foo 200'])
  await cluster.service('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  await stop()
})
