import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { endpointSlices, endpoints, type Holder, type MasterLease, namespaces, services } from '../../src/index.ts'
import { holder as holderAt } from '../../src/verify/watched-leases.ts'
import { drilledCrash } from './drill.ts'
import { simulatedMaster } from './in-process.ts'
import { onOwnLeases, StaticLeases } from './own-leases.ts'
import { behindLoadBalancer } from './own-reconciler.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' }

test('a master runs on an in-process API server in simulated time', async () => {
  const { time, ports, master } = simulatedMaster()
  const stop = new AbortController()
  const ended = master.run(stop.signal)
  await time.advance(1_000)
  const slice = await ports.api.get(endpointSlices, kubernetes)
  assert.deepEqual(
    slice.endpoints?.map((endpoint) => endpoint.addresses),
    [['192.0.2.1']],
  )
  stop.abort()
  await time.advance(1_000)
  await ended
})

test('the lifecycle hooks start a master and at shutdown remove its address, even if it is the last master', async () => {
  const { time, ports, master } = simulatedMaster()
  const ran: string[] = []
  master.lifecycle.postStartHook('mine', async () => void ran.push('post-start'))
  master.lifecycle.preShutdownHook('mine', async () => void ran.push('pre-shutdown'))
  const started = master.postStartHook()
  await time.advance(1_000)
  await started
  assert.equal((await ports.api.list(namespaces)).items.length, 4)
  const stopped = master.preShutdownHook()
  await time.advance(1_000)
  await stopped
  assert.deepEqual((await ports.api.get(endpoints, kubernetes)).subsets ?? [], [])
  assert.deepEqual(ran, ['post-start', 'pre-shutdown'])
})

test('the post-start hook does not wait for the readiness of the server, which may depend on the hook', async () => {
  const { time, ports } = simulatedMaster()
  const unready = { probe: async () => ({ answered: true, ready: false, checks: [] }) as const }
  const { master } = behindLoadBalancer({ ...ports, readiness: unready })
  const started = master.postStartHook()
  await time.advance(1_000)
  await started
  await assert.rejects(ports.api.get(services, kubernetes), { code: 'NotFound' })
  const stopped = master.preShutdownHook()
  await time.advance(1_000)
  await stopped
})

test('a custom reconciler adds the address of a running master, removes it at the end, and replaces Endpoints', async () => {
  const { time, ports } = simulatedMaster()
  const { master, reconciler } = behindLoadBalancer(ports)
  const stop = new AbortController()
  const ended = master.run(stop.signal)
  await time.advance(1_000)
  assert.deepEqual([...reconciler.backends], ['192.0.2.1'])
  assert.equal((await ports.api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  await assert.rejects(ports.api.get(endpoints, kubernetes), { code: 'NotFound' })
  stop.abort()
  await time.advance(1_000)
  await ended
  assert.deepEqual([...reconciler.backends], [])
})

test('two masters on a custom lease store list each other', async () => {
  const { time, ports } = simulatedMaster()
  const leases = new StaticLeases()
  const stop = new AbortController()
  const ended = ['192.0.2.1', '192.0.2.2'].map((address) => onOwnLeases(address, leases, ports).run(stop.signal))
  await time.advance(1_000)
  const { subsets } = await ports.api.get(endpoints, kubernetes)
  assert.deepEqual(
    subsets?.[0]?.addresses?.map(({ ip }) => ip),
    ['192.0.2.1', '192.0.2.2'],
  )
  stop.abort()
  await time.advance(30_000)
  await Promise.all(ended)
})

test('a record that cannot be read in a custom lease store costs no other master its address', async () => {
  class SpoiledLeases extends StaticLeases {
    override async list(): Promise<readonly MasterLease[]> {
      const older = { ...holderAt('192.0.2.9'), ports: undefined } as unknown as Holder
      return [{ address: '192.0.2.9', holder: older }, ...(await super.list())]
    }
  }
  const { time, ports } = simulatedMaster()
  const leases = new SpoiledLeases()
  const stop = new AbortController()
  const ended = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((address) =>
    onOwnLeases(address, leases, ports).run(stop.signal),
  )
  await time.advance(1_000)
  await ports.api.delete(endpoints, kubernetes)
  await time.advance(30_000)
  const { subsets } = await ports.api.get(endpoints, kubernetes)
  assert.deepEqual(
    subsets?.[0]?.addresses?.map(({ ip }) => ip),
    ['192.0.2.1', '192.0.2.2', '192.0.2.3'],
  )
  stop.abort()
  await time.advance(30_000)
  await Promise.all(ended)
})

test('an embedding server runs a drill on masters that it composes itself', async () => {
  const { held, text } = await drilledCrash(readFileSync('config/drills/crash.yaml', 'utf8'))
  assert.equal(held, true)
  assert.match(text, /time to remove/)
})
