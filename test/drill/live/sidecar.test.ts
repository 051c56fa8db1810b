import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { masterOptionsOf } from '../../../src/config/master-options.ts'
import { resolveConfiguration } from '../../../src/config/resolve.ts'
import { Child, Watchdog } from '../../../src/drill/live/child.ts'
import {
  lifeThatCounts,
  SidecarLife,
  settingsOf,
  sidecarFlags,
  writeKubeconfigCopy,
} from '../../../src/drill/live/sidecar.ts'
import { loadScenario } from '../../../src/drill/scenario/load-scenario.ts'
import { loadKubeConfig } from '../../../src/kube/kube-config.ts'
import { readPem } from '../../../src/kube/kube-config-access.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { scenario } from '../report/reports.ts'

/** A life of a process that does nothing until a signal ends it. */
async function startLife(t: TestContext, number: number): Promise<SidecarLife> {
  const watchdog = new Watchdog()
  const directory = await tempDir(t)
  const child = await Child.start('sleep', ['600'], { watchdog, output: join(directory, 'output') })
  t.after(async () => {
    await child.kill()
    watchdog.close()
  })
  return new SidecarLife(child, number, settingsOf(scenario.fleet, [], {}))
}

test('a sidecar process counts as running once it is awake, except while frozen, until it is terminated', async (t) => {
  const life = await startLife(t, 1)
  assert.equal(life.running, false)
  life.awake = true
  assert.equal(life.running, true)
  life.signal('freeze')
  assert.deepEqual([life.running, life.frozen], [false, true])
  life.signal('thaw')
  assert.deepEqual([life.running, life.frozen], [true, false])
  life.signal('terminate')
  assert.deepEqual([life.running, life.stopping], [false, true])
  await life.child.exited
  assert.equal(life.child.ended, true)
})

test('of two overlapping processes the earlier one counts until the later one is awake', async (t) => {
  const [before, next] = [await startLife(t, 1), await startLife(t, 2)]
  before.awake = true
  assert.equal(lifeThatCounts(next, before), before)
  next.awake = true
  assert.equal(lifeThatCounts(next, before), next)
  assert.equal(lifeThatCounts(undefined, before), undefined)
})

test('the later process counts if it has ended, or if the earlier one no longer runs', async (t) => {
  const [before, next, failed] = [await startLife(t, 1), await startLife(t, 2), await startLife(t, 2)]
  before.awake = true
  await failed.child.kill()
  assert.equal(lifeThatCounts(failed, before), failed)
  before.signal('terminate')
  assert.equal(lifeThatCounts(next, before), next)
})

const around = {
  kubeconfig: '/somewhere/kubeconfig',
  host: 'master-1',
  readyzUrl: 'http://127.0.0.1:20000/3/readyz',
  serviceClusterIpRange: '10.96.0.0/12',
  etcd: { servers: ['http://127.0.0.1:20001', 'http://127.0.0.1:20002'], flags: ['--etcd-prefix=/registry'] },
}

/** The options that a master derives from a command line. */
function optionsOf(flags: readonly string[]): ReturnType<typeof masterOptionsOf> {
  const given = flags.slice(1).map((flag) => /^--([^=]+)=(.*)$/.exec(flag) ?? [])
  const camel = (name = ''): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  const { configuration } = resolveConfiguration(Object.fromEntries(given.map(([, name, text]) => [camel(name), text])))
  return masterOptionsOf(configuration, 'this machine')
}

test('the flags of a sidecar carry every setting of its plan', async () => {
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

test('the flags of each reconciler and lease store are accepted', async () => {
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

const data = join(import.meta.dirname, '..', '..', 'kube', 'data')

const authority = readFileSync(join(data, 'ca.crt'), 'utf8')

test('a copied kubeconfig has the URL of the proxy, the token that the proxy issued and the impersonated user', async (t) => {
  const directory = await tempDir(t)
  const file = join(directory, 'kubeconfig')
  const user = {
    'client-certificate': join(data, 'client-1.crt'),
    'client-key-data': readFileSync(join(data, 'client-1.key')).toString('base64'),
    as: 'somebody',
    'as-groups': ['some', 'group'],
  }
  const cluster = {
    server: 'https://api.example.test:6443/below',
    'certificate-authority': join(data, 'other-ca.crt'),
  }
  writeFileSync(file, kubeconfig(cluster, user))
  const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })

  const copy = join(directory, 'copy')
  for (const token of ['first', 'second']) {
    await writeKubeconfigCopy(copy, access, { port: 20_001, authority, token })
    const { access: copied } = await loadKubeConfig({ kubeconfig: copy, environment: {} })
    assert.equal(copied.user?.token, token)
    assert.equal(statSync(copy).mode & 0o777, 0o600)
    assert.equal(copied.server.href, 'https://127.0.0.1:20001/below')
    assert.equal(copied.ca && readPem(copied.ca), authority)
    assert.equal(copied.clientCertificate, undefined)
    assert.equal(copied.user?.impersonateUser, 'somebody')
    assert.deepEqual(copied.user?.impersonateGroups, ['some', 'group'])
  }
})

test('without a proxy token a copied kubeconfig preserves its credentials; its URL is https even for an http server', async (t) => {
  const directory = await tempDir(t)
  const copyOf = async (cluster: object, user: object): ReturnType<typeof loadKubeConfig> => {
    const [file, copy] = [join(directory, 'kubeconfig'), join(directory, 'copy')]
    writeFileSync(file, kubeconfig(cluster, user))
    const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })
    await writeKubeconfigCopy(copy, access, { port: 20_001, authority, token: undefined })
    return loadKubeConfig({ kubeconfig: copy, environment: {} })
  }
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'token', interactiveMode: 'Never' }
  const fetching = await copyOf({ server: 'https://10.0.0.1:6443' }, { exec })
  assert.equal(fetching.access.user?.exec?.command, 'token')
  const plain = await copyOf({ server: 'http://localhost:8080' }, {})
  assert.equal(plain.access.server.href, 'https://127.0.0.1:20001/')
})

test('a kubeconfig copy that cannot replace its target is an error', async (t) => {
  const directory = await tempDir(t)
  const [file, copy] = [join(directory, 'kubeconfig'), join(directory, 'copy')]
  writeFileSync(file, kubeconfig({ server: 'https://10.0.0.1:6443' }, {}))
  mkdirSync(copy)
  const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })
  await assert.rejects(writeKubeconfigCopy(copy, access, { port: 20_001, authority, token: 't' }), {
    syscall: 'rename',
  })
})

function kubeconfig(cluster: object, user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'a',
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    clusters: [{ name: 'a', cluster }],
    users: [{ name: 'a', user }],
  })
}
