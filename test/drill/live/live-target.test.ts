import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { type StartedApiServer, startApiServer } from '../../../src/apiserver/http-start.ts'
import { writeStaticList } from '../../../src/drill/listings.ts'
import { createLiveTarget } from '../../../src/drill/live/live-target.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import type { DrillTarget, TargetObserver } from '../../../src/drill/target.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { ifFound } from '../../../src/kube/errors.ts'
import { endpoints, services } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'
import type { Listing } from '../../../src/verify/observation.ts'
import { startFakeEtcd } from '../../etcd/fake-etcd.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { eventually } from '../../support/with-timeout.ts'
import { overlappingEtcdCuts } from '../etcd-cuts.ts'

const timeout = 30_000
const { signal } = new AbortController()
const observer: TargetObserver = {
  listed: () => {},
  requested: () => {},
  objects: () => {},
  leases: () => {},
  connected: () => {},
}

test('a master that is added in a datastore outage reaches no etcd, and its server is unready, until the outage ends', {
  timeout,
}, async (t) => {
  const { target, flags } = await openTarget(t)
  await target.perform({ type: 'datastore', state: 'away' }, signal)
  const [master] = scenario.fleet.masters
  assert.ok(master)
  await target.perform({ type: 'add', master }, signal)
  await target.perform({ type: 'start', master: master.name, part: 'server' }, signal)
  await target.perform({ type: 'start', master: master.name, part: 'sidecar' }, signal)
  const noted = await flags()
  const socket = noted.match(/--etcd-servers=unix:\/\/(\S+)/)?.[1] ?? ''
  await assert.rejects(once(connect(socket), 'connect'))
  const readyz = noted.match(/--readyz-url=(\S+)/)?.[1] ?? ''
  assert.equal((await fetch(readyz)).status, 500)
  await target.perform({ type: 'datastore', state: 'up' }, signal)
  const connection = connect(socket)
  await once(connection, 'connect')
  connection.destroy()
  await eventually('an answer of ready', async () => (await fetch(readyz)).ok)
})

test('damage in a datastore outage changes nothing, as in the simulator', { timeout }, async (t) => {
  const { target, api } = await openTarget(t)
  await writeStaticList(api, ['192.0.2.1'])
  await target.perform({ type: 'datastore', state: 'away' }, signal)
  await target.perform({ type: 'damage', damage: 'endpoints-deleted' }, signal)
  assert.ok(await ifFound(api.get(endpoints, KUBERNETES_SERVICE)))
  await target.perform({ type: 'datastore', state: 'up' }, signal)
  await target.perform({ type: 'damage', damage: 'endpoints-deleted' }, signal)
  assert.equal(await ifFound(api.get(endpoints, KUBERNETES_SERVICE)), undefined)
})

test('damage that the server refuses is an error, and damage to a missing object is ignored', {
  timeout,
}, async (t) => {
  const { target, api, faults } = await openTarget(t)
  await target.perform({ type: 'damage', damage: 'endpoints-deleted' }, signal)
  await target.perform({ type: 'damage', damage: 'endpoints-with-a-foreign-port' }, signal)
  await writeStaticList(api, ['192.0.2.1'])
  faults.add({ fault: { type: 'status', status: 403 } })
  const damaged = target.perform({ type: 'damage', damage: 'endpoints-deleted' }, signal)
  await assert
    .rejects(damaged, { code: 'Forbidden', message: /^delete endpoints default\/kubernetes: .*403$/ })
    .finally(() => faults.clear())
})

test('a deletion of Endpoints that follows the damage service-deleted is attributed to the damage', {
  timeout,
}, async (t) => {
  const listings: Listing[] = []
  const { target, api } = await openTarget(t, { ...observer, listed: (listing) => listings.push(listing) })
  const listed = (): Listing | undefined => listings.findLast(({ object }) => object === 'endpoints')
  await api.create(services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...KUBERNETES_SERVICE },
    spec: { ports: [{ port: 443 }] },
  })
  await writeStaticList(api, ['192.0.2.1'])
  await eventually('the list', () => listed()?.addresses?.length === 1)
  await target.perform({ type: 'damage', damage: 'service-deleted' }, signal)
  await api.delete(endpoints, KUBERNETES_SERVICE)
  await eventually('the deletion', () => listed()?.addresses === undefined)
  assert.equal(listed()?.byDamage, true)
})

test('a kube-apiserver is cut off from etcd until the last fault that cuts it off ends', { timeout }, async (t) => {
  const { target, flags } = await openTarget(t)
  const [plan] = scenario.fleet.masters
  assert.ok(plan)
  const { name: master } = plan
  await target.perform({ type: 'add', master: { ...plan, kind: 'kube-apiserver' } }, signal)
  const end = new AbortController()
  const started = target.perform({ type: 'start', master, part: 'server' }, end.signal)
  const socket = (await flags()).match(/--etcd-servers=unix:\/\/(\S+)/)?.[1] ?? ''
  await target.perform({ type: 'own-etcd', master, state: 'fails' }, signal)
  await assert.rejects(once(connect(socket), 'connect'), { code: 'ENOENT' })
  end.abort()
  await assert.rejects(started)
  for (const [step, reachesEtcd] of overlappingEtcdCuts(master)) {
    await target.perform(step, signal)
    assert.equal(target.members[0]?.connected, reachesEtcd, JSON.stringify(step))
  }
})

const scenario = parseScenario(
  `
apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
name: test
description: One master.
fleet:
  masters: 1
steps: []
`,
  'test.yaml',
)

/** An open target whose sidecars and kube-apiservers only write their flags to a file. */
async function openTarget(
  t: TestContext,
  watching = observer,
): Promise<{
  readonly target: DrillTarget
  /** A client of the API server itself. */
  readonly api: KubeApi
  /** The faults between the drill and the API server. */
  readonly faults: StartedApiServer['faults']
  /** The flags of a process that has started. */
  readonly flags: () => Promise<string>
}> {
  const directory = await tempDir(t)
  const [kubeconfig, noted, program] = ['kubeconfig', 'flags', 'kube-apiserver'].map((name) =>
    join(directory, name),
  ) as [string, string, string]
  writeFileSync(program, `#!/bin/sh\necho "$@" > ${noted}; exec sleep 600\n`, { mode: 0o700 })
  let end = async (): Promise<void> => {}
  // Registered first, because the objects are restored through the server.
  t.after(() => end())
  const range = { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name: 'kubernetes' } }
  const server = await startApiServer({
    objects: [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
      { ...range, spec: { cidrs: ['10.96.0.0/12'] } },
    ],
  })
  t.after(() => server.close())
  writeFileSync(kubeconfig, server.kubeconfig)
  const { url } = await startFakeEtcd(t)
  const target = await createLiveTarget(scenario, 1, {
    kubeconfig,
    etcdServers: [url],
    etcdPrefix: '/registry',
    etcdFiles: {},
    kubeApiserver: program,
    program: ['sh', '-c', 'echo "$@" > "$0"; exec sleep 600', noted],
    log: () => {},
  })
  end = () => target.close()
  await target.open(watching, signal)
  const flags = async (): Promise<string> => {
    await eventually('the flags', () => existsSync(noted) && readFileSync(noted, 'utf8') !== '')
    return readFileSync(noted, 'utf8')
  }
  const transport = inProcessTransport(server.server)
  const api = restKubeApi({ transport, clock: systemClock, random: seededRandom(1, 'client') })
  return { target, api, faults: server.faults, flags }
}
