import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createApiServer, inProcessReadiness, inProcessTransport } from '../src/apiserver/api-server.ts'
import { workloadControllerNames } from '../src/bootstrap/duties.ts'
import { createMaster } from '../src/bootstrap/master.ts'
import { defineMaster } from '../src/config/master-options.ts'
import { MemoryEtcd } from '../src/etcd/memory-etcd.ts'
import { restKubeApi } from '../src/kube/rest-api.ts'
import { EtcdLeases } from '../src/kubernetes-service/leases/etcd/leases.ts'
import { EtcdRangeRegistry } from '../src/repair/registries/etcd.ts'
import { seededRandom } from '../src/runtime/random.ts'
import { VirtualClock } from '../src/runtime/virtual-clock.ts'
import { expiryReporter } from '../src/telemetry/expiry.ts'
import { answerHealth, ping } from '../src/telemetry/health.ts'
import { silentLogger } from '../src/telemetry/logger.ts'
import type { MetricOptions, Metrics } from '../src/telemetry/metrics.ts'
import { observeProcess, watchEventLoop } from '../src/telemetry/process-metrics.ts'
import { prometheusMetrics } from '../src/telemetry/prometheus-metrics.ts'

/** Metrics that record each requested metric as a row of the table in docs/metrics.md. */
function noting(rows: Set<string>): Metrics {
  const inner = prometheusMetrics()
  const note = (type: string, { name, labels = [], help }: MetricOptions<string>): void => {
    rows.add(`| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ') || '–'} | ${help} |`)
  }
  return {
    counter(options) {
      note('counter', options)
      return inner.counter(options)
    },
    gauge(options) {
      note('gauge', options)
      return inner.gauge(options)
    },
    histogram(options) {
      note('histogram', options)
      assert.deepEqual(
        [...new Set(options.buckets)].sort((a, b) => a - b),
        [...options.buckets],
        options.name,
      )
      return inner.histogram(options)
    },
    onCollect: (collect) => inner.onCollect(collect),
    expose: () => inner.expose(),
  }
}

test('docs/metrics.md has every metric with its type, labels and help, and no other', async () => {
  const rows = new Set<string>()
  const metrics = noting(rows)
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const logger = silentLogger
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random, metrics })
  const etcd = new MemoryEtcd({ clock }).client()
  const settings = { advertiseAddress: '192.0.2.1', etcdServers: 'http://127.0.0.1:2379' }
  const controllers = ['auto', ...workloadControllerNames].join()
  const options = defineMaster({ ...settings, controllers }, 'host')
  const stop = new AbortController()
  const master = createMaster(options, {
    api,
    readiness: inProcessReadiness(server),
    clock,
    random,
    logger,
    metrics,
    etcd: { kv: etcd, Leases: EtcdLeases, Ranges: EtcdRangeRegistry },
  })
  const ended = master.run(stop.signal)
  await time.advance(3_000)
  // The other metrics that a program registers, and those of parts that not every master uses.
  observeProcess(metrics, clock)
  watchEventLoop({ clock, logger, metrics })()
  expiryReporter({ metrics, clock, logger })
  await answerHealth({ endpoint: 'readyz', checks: [ping], metrics })
  stop.abort(new Error('the test is over'))
  await time.advance(30_000)
  await ended

  const documented = readFileSync('docs/metrics.md', 'utf8').match(/^\| `\w+` \|.*\|$/gm) ?? []
  assert.deepEqual(documented.toSorted(), [...rows].sort())
})

test('every metric that the sources name is in docs/metrics.md', () => {
  const page = readFileSync('docs/metrics.md', 'utf8')
  const sources = globSync('src/**/*.ts').map((file) => readFileSync(file, 'utf8'))
  const names = sources.flatMap((source) => [...source.matchAll(/name: '(\w+)',\s*help:/g)].map(([, name]) => name))
  assert.ok(names.length > 20)
  assert.deepEqual(
    names.filter((name) => !page.includes(`| \`${name}\` |`)),
    [],
  )
})
