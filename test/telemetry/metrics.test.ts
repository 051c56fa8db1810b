import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { WorkQueue } from '../../src/runtime/work-queue.ts'
import { workQueueMetrics } from '../../src/telemetry/metrics.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

test("the metrics of a work queue have upstream's names and meanings", async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const metrics = prometheusMetrics()
  const queue = new WorkQueue({ clock, observer: workQueueMetrics({ metrics, name: 'q', clock }) })
  const read = async (name: string): Promise<number> => {
    const line = (await metrics.expose()).split('\n').find((text) => text.startsWith(`workqueue_${name}{name="q"} `))
    return Number(line?.split(' ')[1])
  }

  queue.add('a')
  queue.add('a')
  queue.add('b')
  assert.equal(await read('adds_total'), 2)
  assert.equal(await read('depth'), 2)

  await time.advance(2000)
  await queue.get()
  assert.equal(await read('depth'), 1)
  assert.equal(await read('queue_duration_seconds_sum'), 2)

  await time.advance(1000)
  await queue.get()
  await time.advance(500)
  assert.equal(await read('unfinished_work_seconds'), 2)
  assert.equal(await read('longest_running_processor_seconds'), 1.5)

  queue.done('a')
  assert.equal(await read('work_duration_seconds_sum'), 1.5)
  assert.equal(await read('work_duration_seconds_count'), 1)
  queue.done('b')
  assert.equal(await read('unfinished_work_seconds'), 0)
  assert.equal(await read('longest_running_processor_seconds'), 0)

  queue.addRateLimited('a')
  assert.equal(await read('retries_total'), 1)
  queue.shutDown()
})

test('the queue duration of a key that is added during its processing starts at that addition', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const metrics = prometheusMetrics()
  const queue = new WorkQueue({ clock, observer: workQueueMetrics({ metrics, name: 'q', clock }) })
  queue.add('a')
  await queue.get()
  queue.add('a')
  await time.advance(3000)
  queue.done('a')
  await queue.get()
  assert.match(await metrics.expose(), /^workqueue_queue_duration_seconds_sum\{name="q"\} 3$/m)
})

test('the histogram buckets are powers of ten from 10 ns to 10 s', async () => {
  const metrics = prometheusMetrics()
  const clock = new VirtualClock().view()
  const queue = new WorkQueue({ clock, observer: workQueueMetrics({ metrics, name: 'q', clock }) })
  queue.add('a')
  await queue.get()
  const bounds = [...(await metrics.expose()).matchAll(/queue_duration_seconds_bucket\{le="([^"]+)"/g)]
  assert.deepEqual(
    bounds.map(([, bound]) => bound),
    ['1e-8', '1e-7', '0.000001', '0.00001', '0.0001', '0.001', '0.01', '0.1', '1', '10', '+Inf'],
  )
})
