import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noEvents } from '../../src/kube/event-object.ts'
import { LeaseTelemetry } from '../../src/kubernetes-service/lease-telemetry.ts'
import type { Logger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** A lease of 15 s, and what was logged of it. The time is set by hand. */
function telemetryAt(renewedMs: number | undefined, nowMs: number) {
  const said: unknown[] = []
  const line = (fields: object, message: string): void => void said.push({ ...fields, message })
  const logger: Logger = { debug() {}, info: line, warn: line, error: line, child: () => logger }
  const telemetry = new LeaseTelemetry({
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs, schedule: () => () => {} },
    logger,
    metrics: prometheusMetrics(),
    events: noEvents,
    address: '192.0.2.1',
    leaseTtlMs: 15_000,
    renewedMs: () => renewedMs,
  })
  return { telemetry, said }
}

test('a renewal that comes after the lease has ended is told of', () => {
  const { telemetry, said } = telemetryAt(1_000, 21_000)
  telemetry.attempted(undefined)
  assert.deepEqual(said, [
    {
      address: '192.0.2.1',
      unrenewedMs: 20_000,
      leaseTtlMs: 15_000,
      message: "this master's lease was not renewed in time; others may have taken its address off the list",
    },
  ])
})

test('a renewal in time, the first one, and one that failed are not', () => {
  for (const [renewedMs, nowMs, error] of [
    [1_000, 16_000, undefined],
    [undefined, 90_000, undefined],
    [1_000, 21_000, new Error('refused')],
  ] as const) {
    const { telemetry, said } = telemetryAt(renewedMs, nowMs)
    telemetry.attempted(error)
    assert.deepEqual(said, [])
  }
})
