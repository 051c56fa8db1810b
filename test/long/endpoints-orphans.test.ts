import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointSlice, Endpoints, Service } from '../../src/kube/resources.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { openOwner } from '../peers/owner.ts'
import type { Program } from '../peers/program.ts'
import { metricOf } from '../peers/program-health.ts'
import { throughout, untilPasses } from '../peers/until.ts'
import { startControllers } from '../real/endpoints-world.ts'

const namespace = 'shop'
const core = `/api/v1/namespaces/${namespace}`
const slicesPath = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`
/** How long a slice stays after its Service is gone, if no other process deletes it. */
const graceMs = 10_000
const withinMs = 5_000
const deletions = 'endpoint_slice_controller_changes{operation="delete"}'

describe('EndpointSlices of deleted Services', { concurrency: 1 }, () => {
  const owner = openOwner({ after })
  let server: Apiserver
  let program: Program

  before(async () => {
    server = (await startCluster(owner, { kind: 'bare' })).server
    const { api } = server
    await api.create('/api/v1/namespaces', { metadata: { name: namespace } })
    await api.create('/api/v1/nodes', { metadata: { name: 'node' } })
    for (const [index, app] of ['web', 'db'].entries()) {
      const spec = { nodeName: 'node', containers: [{ name: 'main', image: 'registry.example/main:1' }] }
      await api.create(`${core}/pods`, { metadata: { name: app, labels: { app } }, spec })
      const ip = `10.244.0.${index + 1}`
      const conditions = [{ type: 'Ready', status: 'True' }]
      const status = { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions }
      await api.merge(`${core}/pods/${app}/status`, { status })
    }
    program = await startControllers(owner, server)
  })

  const addService = (name: string, spec: object): Promise<Service> =>
    server.api.create(`${core}/services`, {
      metadata: { name },
      spec: { clusterIP: 'None', ports: [{ port: 80 }], ...spec },
    })
  const deleteService = (name: string): Promise<void> => server.api.delete(`${core}/services/${name}`)
  const selecting = (app: string) => ({ selector: { app } })

  /** Creates a Service whose user writes the Endpoints by hand. */
  async function addByHand(name: string): Promise<void> {
    await addService(name, {})
    const subsets = [{ addresses: [{ ip: '192.0.2.7' }], ports: [{ port: 80 }] }]
    await server.api.create(`${core}/endpoints`, { metadata: { name }, subsets })
  }

  /** The addresses in all slices that name a Service. */
  async function addressesOf(name: string): Promise<readonly string[]> {
    const query = `labelSelector=kubernetes.io%2Fservice-name%3D${name}`
    const { items } = await server.api.get<{ items: readonly EndpointSlice[] }>(`${slicesPath}?${query}`)
    return items.flatMap(({ endpoints }) =>
      endpoints?.length ? endpoints.flatMap(({ addresses }) => addresses) : [''],
    )
  }

  const whenListed = (name: string, addresses: readonly string[], ms = withinMs): Promise<void> =>
    untilPasses(`slices of ${name}`, async () => assert.deepEqual(await addressesOf(name), addresses), { withinMs: ms })

  test('are deleted after a grace period, those of mirrored Endpoints at once', async () => {
    await addService('web', selecting('web'))
    await addByHand('hand')
    await whenListed('web', ['10.244.0.1'], 30_000)
    await whenListed('hand', ['192.0.2.7'])
    await deleteService('web')
    await deleteService('hand')
    const deletedAtMs = performance.now()
    await whenListed('hand', [])
    assert.equal(await server.api.find<Endpoints>(`${core}/endpoints/hand`), undefined)
    assert.deepEqual(await addressesOf('web'), ['10.244.0.1'])
    await whenListed('web', [], graceMs + withinMs)
    assert.ok(performance.now() - deletedAtMs >= graceMs - 500)
  })

  test('are deleted after a restart if the Service was deleted while no controller ran', async () => {
    await addService('web', selecting('web'))
    await addByHand('hand')
    await whenListed('web', ['10.244.0.1'])
    await whenListed('hand', ['192.0.2.7'])
    await program.stop()
    await deleteService('web')
    await deleteService('hand')
    await sleep(500)
    assert.deepEqual(await addressesOf('web'), ['10.244.0.1'])
    assert.deepEqual(await addressesOf('hand'), ['192.0.2.7'])
    program = await startControllers(owner, server)
    await whenListed('hand', [], 30_000)
    await whenListed('web', [], graceMs + withinMs)
  })

  test('leave no endpoints to a Service of the same name that is created at once', async () => {
    await addService('web', selecting('web'))
    await addService('bare', selecting('web'))
    await addByHand('hand')
    await whenListed('web', ['10.244.0.1'])
    await whenListed('bare', ['10.244.0.1'])
    await whenListed('hand', ['192.0.2.7'])
    await Promise.all(['web', 'bare', 'hand'].map(deleteService))
    await addService('web', selecting('db'))
    await addService('hand', selecting('db'))
    await addService('bare', {})
    await whenListed('web', ['10.244.0.2'])
    await whenListed('hand', ['10.244.0.2'])
    await whenListed('bare', [], graceMs + withinMs)
    await throughout(2_000, async () => {
      assert.deepEqual(await addressesOf('web'), ['10.244.0.2'])
      assert.deepEqual(await addressesOf('bare'), [])
    })
    await Promise.all(['web', 'bare', 'hand'].map(deleteService))
  })

  test('are left to a running garbage collector, and disappear without warnings if it hangs for the grace period', async () => {
    for (const name of ['web', 'bare', 'hand']) await whenListed(name, [], graceMs + withinMs)
    const collector = await startControllerManager(owner, server, ['garbage-collector-controller'])
    const deletedBefore = (await metricOf(program, deletions)) ?? assert.fail(`no ${deletions}`)
    const names = Array.from({ length: 10 }, (_, index) => `web-${index}`)
    for (const name of names) await addService(name, selecting('web'))
    await addByHand('hand')
    for (const name of names) await whenListed(name, ['10.244.0.1'])
    await whenListed('hand', ['192.0.2.7'])
    await Promise.all([...names, 'hand'].map(deleteService))
    for (const name of [...names, 'hand']) await whenListed(name, [])
    await sleep(graceMs + 2_000)
    assert.equal(await metricOf(program, deletions), deletedBefore)

    for (const name of names) await addService(name, selecting('web'))
    for (const name of names) await whenListed(name, ['10.244.0.1'])
    collector.signal('SIGSTOP')
    const [first, second] = [names.slice(0, 5), names.slice(5)]
    await Promise.all(first.map(deleteService))
    await sleep(4_000)
    await Promise.all(second.map(deleteService))
    const dueAtMs = performance.now() + graceMs
    for (const name of names) assert.deepEqual(await addressesOf(name), ['10.244.0.1'])
    for (const name of first) await whenListed(name, [], graceMs)
    await untilPasses(
      'the deletions to be counted',
      async () => assert.equal(await metricOf(program, deletions), deletedBefore + first.length),
      { withinMs: 1_000 },
    )
    for (const name of second) assert.deepEqual(await addressesOf(name), ['10.244.0.1'])
    // The collector continues while this program deletes the other slices.
    await sleep(dueAtMs - performance.now())
    collector.signal('SIGCONT')
    for (const name of names) await whenListed(name, [])
    await sleep(2_000)
    assert.equal(collector.exit, undefined)
    program.assertRunning()
    const complaints = program.log.filter(
      ({ level, message }) => (level === 'warn' || level === 'error') && message !== 'the API server sent a warning',
    )
    assert.deepEqual(complaints, [])
  })
})
