import assert from 'node:assert/strict'
import { test } from 'node:test'
import { masterOptionsOf } from '../../../src/config/master-options.ts'
import { resolveConfiguration } from '../../../src/config/resolve.ts'
import { settingsOf, sidecarFlags } from '../../../src/drill/live/sidecar-flags.ts'
import { loadScenario } from '../../../src/drill/load-scenario.ts'

const around = {
  kubeconfig: '/somewhere/kubeconfig',
  host: 'master-1',
  readyzUrl: 'http://127.0.0.1:20000/3/readyz',
  serviceClusterIpRange: '10.96.0.0/12',
  etcd: { servers: ['http://127.0.0.1:20001', 'http://127.0.0.1:20002'], flags: ['--etcd-prefix=/registry'] },
}

/** What a master makes of a command line. */
function optionsOf(flags: readonly string[]): ReturnType<typeof masterOptionsOf> {
  const given = flags.slice(1).map((flag) => /^--([^=]+)=(.*)$/.exec(flag) ?? [])
  const camel = (name = ''): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  const { configuration } = resolveConfiguration(Object.fromEntries(given.map(([, name, text]) => [camel(name), text])))
  return masterOptionsOf(configuration, 'this machine')
}

test('a sidecar is told everything that the plan says of it', async () => {
  const { fleet } = await loadScenario('crash')
  const own = { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000, onShutdown: 'keep', readinessGate: 'startup' } as const
  const options = optionsOf(
    sidecarFlags(settingsOf(fleet, ['192.0.2.7', '2001:db8::7'], own), {
      ...around,
      serviceClusterIpRange: '10.96.0.0/12,2001:db8:1::/112',
    }),
  )
  assert.equal(options.host, 'master-1')
  assert.deepEqual(
    options.advertiseAddresses.map(({ text }) => text),
    ['192.0.2.7', '2001:db8::7'],
  )
  assert.equal(options.leaseStore, 'etcd')
  assert.equal(options.leaseTtlMs, 3_000)
  assert.equal(options.reconcileIntervalMs, 1_000)
  assert.equal(options.onShutdown, 'keep')
  assert.equal(options.readinessGate, 'startup')
  assert.equal(options.endpointReconcilerType, 'lease')
})

test('each reconciler and lease store makes a command line that is taken', async () => {
  const { fleet } = await loadScenario('crash')
  for (const reconciler of ['lease', 'master-count', 'none'] as const) {
    for (const etcd of [around.etcd, undefined]) {
      const settings = settingsOf({ ...fleet, reconciler, apiserverCount: 4 }, ['192.0.2.7'], {})
      const options = optionsOf(sidecarFlags(settings, { ...around, etcd }))
      assert.equal(options.endpointReconcilerType, reconciler)
      assert.equal(options.leaseStore, etcd === undefined ? 'kubernetes' : 'etcd')
      if (reconciler === 'master-count') assert.equal(options.apiserverCount, 4)
    }
  }
})
