import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { type Finding, RepairReporter } from '../../src/repair/reporter.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

function setUp(options: { readonly dryRun?: boolean } = {}) {
  const events: EventToRecord[] = []
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const time = new VirtualClock()
  const reporter = new RepairReporter({
    kind: 'node-port',
    events: { record: (event) => void events.push(event) },
    logger,
    metrics,
    clock: time.view(),
    ...options,
  })
  const sample = async (name: string): Promise<string | undefined> =>
    (await metrics.expose()).split('\n').find((line) => line.startsWith(name))
  return { events, logger, reporter, time, sample }
}

function duplicate(index: number): Finding {
  return {
    type: 'duplicate',
    reason: 'PortAlreadyAllocated',
    item: String(30_000 + index),
    note: `Port ${30_000 + index} was assigned to multiple services; please recreate service`,
    regarding: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'default', name: `s-${index}`, uid: `u-${index}` },
    },
  }
}

test('a persisting finding is logged once, and each full pass counts it and emits an event', async () => {
  const { events, logger, reporter, sample } = setUp()
  reporter.report([duplicate(1)], { full: false })
  reporter.report([duplicate(1)], { full: false })
  assert.deepEqual([logger.lines.length, events.length], [1, 1])
  reporter.report([duplicate(1)], { full: true })
  assert.deepEqual([logger.lines.length, events.length], [1, 2])
  assert.equal(
    await sample('apiserver_nodeport_repair_port_errors_total{'),
    'apiserver_nodeport_repair_port_errors_total{type="duplicate"} 2',
  )
  assert.deepEqual(events[0], {
    regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 's-1', uid: 'u-1' },
    type: 'Warning',
    reason: 'PortAlreadyAllocated',
    action: 'PortAllocation',
    note: 'Port 30001 was assigned to multiple services; please recreate service',
  })
})

test('two repairs with the same metrics each log a finding only once', async () => {
  const { logger, reporter, sample } = setUp()
  const other = reporter.beside()
  for (let pass = 0; pass < 3; pass++) {
    reporter.report([duplicate(1)], { full: true })
    other.report([duplicate(2)], { full: true })
  }
  assert.equal(logger.lines.length, 2)
  assert.equal(
    await sample('apiserver_nodeport_repair_port_errors_total{'),
    'apiserver_nodeport_repair_port_errors_total{type="duplicate"} 6',
  )
})

test('a finding that disappears and returns is logged again', () => {
  const { logger, reporter } = setUp()
  reporter.report([duplicate(1)], { full: true })
  reporter.report([], { full: true })
  reporter.report([duplicate(1)], { full: true })
  assert.equal(logger.lines.length, 2)
})

test('a repaired finding counts as a repair, and is logged again when it returns', async () => {
  const { logger, reporter, sample } = setUp()
  reporter.report([duplicate(1)], { full: false })
  reporter.repaired(duplicate(1))
  reporter.report([duplicate(1)], { full: false })
  assert.equal(logger.lines.length, 2)
  assert.equal(
    await sample('apiserver_bootstrap_repairs_total{'),
    'apiserver_bootstrap_repairs_total{repair="node-port",reason="PortAlreadyAllocated"} 1',
  )
})

test('of many findings the first twenty are logged and emitted as events, and all are counted', async () => {
  const { events, logger, reporter, sample } = setUp()
  reporter.report(
    Array.from({ length: 500 }, (_, index) => duplicate(index)),
    { full: true },
  )
  assert.equal(events.length, 20)
  assert.equal(logger.lines.length, 21)
  assert.deepEqual(logger.lines.at(-1)?.fields, { more: 480 })
  assert.equal(
    await sample('apiserver_nodeport_repair_port_errors_total{'),
    'apiserver_nodeport_repair_port_errors_total{type="duplicate"} 500',
  )
})

test('a dry run logs all findings', () => {
  const { logger, reporter } = setUp({ dryRun: true })
  reporter.report(
    Array.from({ length: 500 }, (_, index) => duplicate(index)),
    { full: true },
  )
  assert.equal(logger.lines.length, 500)
})

test('a leak, which has no object, is logged and counted without an event', async () => {
  const { events, logger, reporter, sample } = setUp()
  const note = 'the node port 30001 appears to have leaked: cleaning up'
  reporter.report([{ type: 'leak', reason: 'PortNotAllocated', item: '30001', note, regarding: undefined }], {
    full: true,
  })
  assert.deepEqual([logger.lines.length, events.length], [1, 0])
  assert.equal(
    await sample('apiserver_nodeport_repair_port_errors_total{'),
    'apiserver_nodeport_repair_port_errors_total{type="leak"} 1',
  )
})

test('before the first pass no number of free ports is exposed: 0 would say that none is left', async () => {
  const { reporter, sample } = setUp()
  assert.equal(await sample('kube_apiserver_nodeport_allocator_available_ports '), undefined)
  reporter.metrics.usage('30000-32767', { allocated: 1, size: 2768 })
  const free = 'kube_apiserver_nodeport_allocator_available_ports 2767'
  assert.equal(await sample('kube_apiserver_nodeport_allocator_available_ports '), free)
})

test('the metric for the age of the last full pass shows the oldest of two repairs, and is absent without a pass', async () => {
  const { reporter, time, sample } = setUp()
  assert.equal(await sample('apiserver_bootstrap_repair_last_pass_age_seconds{'), undefined)
  const age = (seconds: number) => `apiserver_bootstrap_repair_last_pass_age_seconds{repair="node-port"} ${seconds}`
  const [first, second] = [{}, {}]
  reporter.metrics.passed(first)
  await time.advance(90_000)
  reporter.metrics.passed(second)
  assert.equal(await sample('apiserver_bootstrap_repair_last_pass_age_seconds{'), age(90))
  reporter.metrics.ended(first)
  await time.advance(1_000)
  assert.equal(await sample('apiserver_bootstrap_repair_last_pass_age_seconds{'), age(1))
  reporter.metrics.ended(second)
  assert.equal(await sample('apiserver_bootstrap_repair_last_pass_age_seconds{'), undefined)
})

test('a repair is counted, except in a dry run', async () => {
  for (const dryRun of [false, true]) {
    const { reporter, logger, sample } = setUp({ dryRun })
    reporter.report([duplicate(1)], { full: false })
    reporter.repaired(duplicate(1))
    const line = (await sample('apiserver_bootstrap_repairs_total{')) ?? ''
    assert.equal(line.endsWith(' 1'), !dryRun, line)
    reporter.report([duplicate(1)], { full: false })
    assert.equal(logger.lines.length, dryRun ? 1 : 2, 'a finding that recurs is logged again')
  }
})
