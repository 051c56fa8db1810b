import assert from 'node:assert/strict'
import { test } from 'node:test'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** The sample lines of an exposition, without comments. */
async function samples(metrics: ReturnType<typeof prometheusMetrics>): Promise<string[]> {
  return (await metrics.expose()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

test('a counter sums by labels', async () => {
  const metrics = prometheusMetrics()
  const writes = metrics.counter({ name: 'writes_total', help: 'Writes.', labels: ['reason'] })
  writes.add({ reason: 'a' })
  writes.add({ reason: 'a' }, 2)
  writes.add({ reason: 'b' }, 0.5)
  assert.deepEqual(await samples(metrics), ['writes_total{reason="a"} 3', 'writes_total{reason="b"} 0.5'])
  assert.throws(() => writes.add({ reason: 'a' }, -1))
})

test('a gauge shows its last value, and nothing after its removal', async () => {
  const metrics = prometheusMetrics()
  const age = metrics.gauge({ name: 'age', help: 'Age.', labels: ['ip'] })
  age.set({ ip: 'a' }, 1)
  age.set({ ip: 'a' }, 7)
  age.set({ ip: 'b' }, 8)
  age.remove({ ip: 'b' })
  assert.deepEqual(await samples(metrics), ['age{ip="a"} 7'])
})

test('a histogram counts observations in its buckets', async () => {
  const metrics = prometheusMetrics()
  const took = metrics.histogram({ name: 'took', help: 'Time.', buckets: [1, 5] })
  for (const value of [0.5, 1, 3, 9]) took.observe({}, value)
  assert.deepEqual(await samples(metrics), [
    'took_bucket{le="1"} 2',
    'took_bucket{le="5"} 3',
    'took_bucket{le="+Inf"} 4',
    'took_sum 13.5',
    'took_count 4',
  ])
})

test('registering the same metric again returns the existing one', async () => {
  const metrics = prometheusMetrics()
  for (let i = 0; i < 2; i++)
    metrics.counter({ name: 'n_total', help: 'N.', labels: ['a', 'b'] }).add({ a: '1', b: '2' })
  assert.deepEqual(await samples(metrics), ['n_total{a="1",b="2"} 2'])
})

test('two different metrics cannot have one name', () => {
  const metrics = prometheusMetrics()
  metrics.counter({ name: 'n_total', help: 'N.', labels: ['a'] })
  assert.throws(() => metrics.counter({ name: 'n_total', help: 'N.', labels: ['b'] }), /n_total is already registered/)
  assert.throws(() => metrics.gauge({ name: 'n_total', help: 'N.', labels: ['a'] }), /n_total is already registered/)
})

test('two registries in one process are independent', async () => {
  const metrics = prometheusMetrics()
  const others = prometheusMetrics()
  metrics.counter({ name: 'n_total', help: 'N.' }).add({})
  others.counter({ name: 'n_total', help: 'N.' }).add({}, 5)
  assert.deepEqual(await samples(metrics), ['n_total 1'])
  assert.deepEqual(await samples(others), ['n_total 5'])
})

test('onCollect callbacks set values before each exposition', async () => {
  const metrics = prometheusMetrics()
  const now = metrics.gauge({ name: 'now', help: 'Now.' })
  let value = 0
  metrics.onCollect(() => now.set({}, ++value))
  assert.deepEqual(await samples(metrics), ['now 1'])
  assert.deepEqual(await samples(metrics), ['now 2'])
})
