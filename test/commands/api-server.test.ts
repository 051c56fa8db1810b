import assert from 'node:assert/strict'
import { access } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { openApiServer, type Surroundings } from '../../src/commands/api-server.ts'
import { type Flags, resolveConfiguration } from '../../src/config/resolve.ts'
import { namespaces } from '../../src/kube/resources.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { tempDir } from '../support/temp-dir.ts'

const { signal } = new AbortController()
const answer: RequestListener = (_, response) => void response.end('ok')

function open(flags: Flags, servesEmbedded = false) {
  const surroundings: Surroundings = {
    clock: systemClock,
    random: systemRandom(),
    logger: silentLogger,
    metrics: prometheusMetrics(),
  }
  const resolved = resolveConfiguration({ advertiseAddress: '192.0.2.1', ...flags })
  return openApiServer(resolved, surroundings, { gated: true, servesEmbedded })
}

test('after close the clients of both servers open no connections', async (t) => {
  const [cluster, own] = await Promise.all([startServer(t, answer), startServer(t, answer)])
  const kubeconfig = writeKubeconfig(join(await tempDir(t), 'kubeconfig'), { server: cluster.url.origin })
  const { api, readiness, close } = await open({ kubeconfig, readyzUrl: `${own.url.origin}/readyz` })
  await close()
  await assert.rejects(api.list(namespaces), { code: 'Unreachable' })
  assert.equal((await readiness.probe(signal)).answered, false)
  assert.deepEqual([cluster.connections(), own.connections()], [0, 0])
})

// support/leaks.ts fails this file if the server still listens.
test('close stops an embedded API server and removes its kubeconfig', async () => {
  const { api, kubeconfigFile = '', close } = await open({ embedded: 'true' }, true)
  await access(kubeconfigFile)
  await close()
  await assert.rejects(access(kubeconfigFile), { code: 'ENOENT' })
  await assert.rejects(api.list(namespaces), { code: 'Unreachable' })
})
