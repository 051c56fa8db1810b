import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerHealth, answerHealthCheck, type HealthCheck, ping } from '../../src/telemetry/health.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

const healthy = (name: string): HealthCheck => ({ name, fault: () => undefined })
const broken: HealthCheck = { name: 'poststarthook/x', fault: () => 'not finished' }
const ask = (checks: readonly HealthCheck[], options: { verbose?: boolean; excluded?: string[] } = {}) =>
  answerHealth({ endpoint: 'readyz', checks, metrics: prometheusMetrics(), ...options })

test('if all checks pass the answer is ok', async () => {
  assert.deepEqual(await ask([ping, healthy('log')]), { status: 200, text: 'ok', faults: [], excluded: [] })
})

test('with verbose the answer lists each passing check', async () => {
  const { text } = await ask([ping, healthy('log')], { verbose: true })
  assert.equal(text, '[+]ping ok\n[+]log ok\nreadyz check passed\n')
})

test('a failure always lists each check, without the reason', async () => {
  assert.deepEqual(await ask([ping, broken, healthy('log')]), {
    status: 500,
    text: '[+]ping ok\n[-]poststarthook/x failed: reason withheld\n[+]log ok\nreadyz check failed\n',
    faults: [{ name: 'poststarthook/x', fault: 'not finished' }],
    excluded: [],
  })
})

test('a remark is shown only with verbose and beside a passing check', async () => {
  const lacking: HealthCheck = { ...healthy('node-port-repair'), remark: () => 'set --etcd-servers' }
  const passing = { ...healthy('log'), remark: () => undefined }
  const failing = { ...broken, remark: () => 'nothing' }
  const { text } = await ask([lacking, passing], { verbose: true })
  assert.equal(text, '[+]node-port-repair ok, but: set --etcd-servers\n[+]log ok\nreadyz check passed\n')
  assert.equal((await ask([lacking])).text, 'ok')
  assert.ok(!(await ask([failing])).text.includes('nothing'))
})

test('an excluded check is not run', async () => {
  const never: HealthCheck = { name: 'etcd', fault: () => assert.fail('asked') }
  const { status, text } = await ask([ping, never], { verbose: true, excluded: ['etcd'] })
  assert.equal(status, 200)
  assert.equal(text, '[+]ping ok\n[+]etcd excluded: ok\nreadyz check passed\n')
})

test('excluding unknown checks adds a warning that names each once, sorted', async () => {
  const { text } = await ask([ping], { verbose: true, excluded: ['z', 'a', 'z', 'ping'] })
  assert.equal(
    text,
    '[+]ping excluded: ok\n' +
      'warn: some health checks cannot be excluded: no matches for "a","z"\n' +
      'readyz check passed\n',
  )
})

test('without any checks ping is still listed', async () => {
  assert.equal((await ask([], { verbose: true })).text, '[+]ping ok\nreadyz check passed\n')
})

test('a check may be asynchronous, and one that rejects has failed', async () => {
  const checks: HealthCheck[] = [
    { name: 'slow', fault: async () => 'too slow' },
    { name: 'throwing', fault: () => Promise.reject(new Error('gone')) },
  ]
  assert.deepEqual((await ask(checks)).faults, [
    { name: 'slow', fault: 'too slow' },
    { name: 'throwing', fault: 'gone' },
  ])
})

test('a single check shows its reason only to authorized callers', async () => {
  assert.deepEqual(await answerHealthCheck(ping, { reason: 'shown' }), { status: 200, text: 'ok' })
  for (const [reason, words] of [
    ['shown', 'not finished'],
    ['withheld', 'reason withheld'],
  ] as const) {
    assert.deepEqual(await answerHealthCheck(broken, { reason }), {
      status: 500,
      text: `internal server error: ${words}\n`,
    })
  }
})

test('results are counted by check and endpoint, without excluded checks', async () => {
  const metrics = prometheusMetrics()
  for (const endpoint of ['readyz', 'readyz', 'livez'] as const) {
    await answerHealth({ endpoint, checks: [ping, broken, healthy('log')], excluded: ['log'], metrics })
  }
  const samples = (await metrics.expose()).split('\n').filter((line) => line.startsWith('kubernetes_'))
  assert.deepEqual(samples, [
    'kubernetes_healthcheck{name="ping",type="readyz"} 1',
    'kubernetes_healthcheck{name="poststarthook/x",type="readyz"} 0',
    'kubernetes_healthcheck{name="ping",type="livez"} 1',
    'kubernetes_healthcheck{name="poststarthook/x",type="livez"} 0',
    'kubernetes_healthchecks_total{name="ping",type="readyz",status="success"} 2',
    'kubernetes_healthchecks_total{name="poststarthook/x",type="readyz",status="error"} 2',
    'kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 1',
    'kubernetes_healthchecks_total{name="poststarthook/x",type="livez",status="error"} 1',
  ])
})
