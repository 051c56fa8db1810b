import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { expiryReporter, warningsDue } from '../../src/telemetry/expiry.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

const hour = 3_600_000
const day = 24 * hour
const startMs = 1_767_225_600_000

const table: readonly (readonly [life: string, lifeMs: number, leftMs: number, warnings: number])[] = [
  ['a year', 365 * day, 7 * day + 1, 0],
  ['a year', 365 * day, 7 * day, 1],
  ['a year', 365 * day, day + 1, 1],
  ['a year', 365 * day, day, 2],
  ['a year', 365 * day, -day, 2],
  ['30 days', 30 * day, 3 * day + 1, 0],
  ['30 days', 30 * day, 3 * day, 1],
  ['30 days', 30 * day, day, 2],
  ['a day', day, 2.5 * hour, 0],
  ['a day', day, 2.4 * hour, 2],
  ['an hour', hour, 7 * 60_000, 0],
]

for (const [life, lifeMs, leftMs, warnings] of table) {
  test(`a certificate valid for ${life} with ${leftMs / hour} h left has ${warnings} warnings due`, () => {
    assert.equal(warningsDue({ fromMs: startMs, toMs: startMs + lifeMs }, startMs + lifeMs - leftMs), warnings)
  })
}

function setUp() {
  const time = new VirtualClock({ startWallMs: startMs })
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const report = expiryReporter({ metrics, clock: time.view(), logger })
  const samples = async (): Promise<readonly string[]> =>
    [...(await metrics.expose()).matchAll(/^apiserver_bootstrap_credentials_\w+(\{.*)$/gm)].map(([, one = '']) => one)
  return { time, logger, report, samples }
}

test('a certificate causes one warning a week and one a day before its end, and none after its renewal', async () => {
  const { time, logger, report, samples } = setUp()
  const reportUntil = (toMs: number): void => report('etcd-certfile', [{ fromMs: startMs - 300 * day, toMs }])
  for (let days = 0; days < 12; days++) {
    reportUntil(startMs + 10 * day)
    reportUntil(startMs + 10 * day)
    await time.advance(day)
  }
  assert.deepEqual(await samples(), [`{kind="etcd-certfile"} ${(startMs + 10 * day) / 1000}`])
  reportUntil(startMs + 100 * day)
  const fields = { kind: 'etcd-certfile', ends: '2026-01-11T00:00:00Z' }
  const line = { level: 'warn', fields, message: 'a certificate expires soon and has not been renewed' } as const
  assert.deepEqual(logger.lines, [line, line])
  assert.deepEqual(await samples(), [`{kind="etcd-certfile"} ${(startMs + 100 * day) / 1000}`])
})

test('a certificate that has already expired causes one warning, and one no longer in use has no metric', async () => {
  const { logger, report, samples } = setUp()
  for (let passes = 0; passes < 3; passes++) report('client-ca-file', [{ fromMs: 0, toMs: startMs - day }])
  assert.deepEqual(
    logger.lines.map(({ message }) => message),
    ['a certificate has expired'],
  )
  report('client-ca-file', [])
  assert.deepEqual(await samples(), [])
})

test('of several authorities the metric shows the next to expire, and an expired one only if all have expired', async () => {
  const { time, report, samples } = setUp()
  const ends = [30, 1, 20].map((days) => ({ fromMs: startMs, toMs: startMs + days * day }))
  for (const [advanceDays, days] of [
    [0, 1],
    [2, 20],
    [20, 30],
    [20, 30],
  ] as const) {
    await time.advance(advanceDays * day)
    report('etcd-cafile', ends)
    assert.deepEqual(await samples(), [`{kind="etcd-cafile"} ${(startMs + days * day) / 1000}`])
  }
})

test('a token without a known start of validity never causes a warning', async () => {
  const { logger, report, samples } = setUp()
  report('token', [{ toMs: startMs + 60_000 }])
  assert.equal((await samples()).length, 1)
  assert.deepEqual(logger.lines, [])
})
