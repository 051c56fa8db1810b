import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FaultRule } from '../../src/apiserver/faults.ts'
import type { MasterSettings } from '../../src/config/master-options.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { endpointSlices, endpoints, type KubeObject, type Resource, services } from '../../src/kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { OtherWritersWorld } from './other-writers-world.ts'

const intervalMs = 10_000
const foreignAddress = [{ addresses: ['198.51.100.1'], conditions: { ready: true } }]

interface Damage {
  readonly resource: Resource<KubeObject>
  readonly name?: string
  readonly settings?: Partial<MasterSettings>
  /** What another client writes. */
  readonly body: object
  readonly isRight: (text: string) => boolean
  /** The number of intervals until a live read finds it. */
  readonly intervals?: number
}

const dual = { advertiseAddress: '192.0.2.1,2001:db8::1', serviceClusterIpRange: '10.0.0.0/24,fd00::/112' }
const damages: Readonly<Record<string, Damage>> = {
  'a foreign address in Endpoints': {
    resource: endpoints,
    body: {
      subsets: [{ addresses: [{ ip: '198.51.100.1' }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }],
    },
    isRight: (text) => text.includes('192.0.2.1') && !text.includes('198.51.100.1'),
  },
  'a foreign address in the slice': {
    resource: endpointSlices,
    body: { endpoints: foreignAddress },
    isRight: (text) => text.includes('192.0.2.1') && !text.includes('198.51.100.1'),
  },
  'a foreign address in the slice of the second family': {
    resource: endpointSlices,
    name: 'kubernetes-ipv6',
    settings: dual,
    body: { endpoints: [{ ...foreignAddress[0], addresses: ['2001:db8::9'] }] },
    isRight: (text) => text.includes('2001:db8::1') && !text.includes('2001:db8::9'),
    intervals: 2,
  },
  'a foreign port of the Service': {
    resource: services,
    body: { spec: { ports: [{ name: 'x', port: 8443, targetPort: 1 }] } },
    isRight: (text) => text.includes('443') && !text.includes('8443'),
  },
}

async function started(
  t: { after(undo: () => Promise<void>): void },
  settings: Partial<MasterSettings> = {},
  rule?: FaultRule,
) {
  const world = new OtherWritersWorld(t)
  const { api, faults } = world.connectFaulty('apiserver-bootstrap')
  if (rule !== undefined) faults.add(rule)
  const master = world.start(1, settings, { api })
  await world.time.advance(5_000)
  return { world, faults, master, vandal: world.connect('vandal') }
}

for (const [what, { resource, name = 'kubernetes', settings, body, isRight, intervals = 1 }] of Object.entries(
  damages,
)) {
  test(`${what} that no watch reports is corrected at the interval`, async (t) => {
    const { world, faults, master, vandal } = await started(t, settings)
    const { time } = world
    const ref = { ...KUBERNETES_SERVICE, name }
    const stored = async (api: KubeApi): Promise<string> =>
      JSON.stringify({ ...(await api.get(resource, ref)), metadata: {} })
    assert.ok(isRight(await stored(vandal)))
    const remove = faults.add({ fault: { type: 'lose' } })
    await vandal.patch(resource, ref, { type: 'merge', body })
    await time.advance(0)
    remove()
    assert.ok(!isRight(await stored(vandal)), 'no watch reported the change')
    await time.advance(intervals * intervalMs)
    assert.ok(isRight(await stored(vandal)))
    assert.deepEqual(
      master.logged(/watch differs from the stored object/),
      [],
      'at once, not when the watch is started anew',
    )
  })
}

test('an event that a watch delivers after a live read overrides the older answer of that read', async (t) => {
  const { world, faults, vandal } = await started(t)
  const { time } = world
  const remove = faults.add({ fault: { type: 'lose' } })
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { annotations: { a: 'b' } } } })
  await time.advance(0)
  remove()
  await time.advance(intervalMs + 100)
  const foreign = { subsets: [{ addresses: [{ ip: '198.51.100.1' }] }] }
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: foreign })
  await time.advance(100)
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
})

test('a watch that delivers no events is restarted, logged once, and then delivers events again', async (t) => {
  // The first watch delivers no event after the Endpoints were created, not even of the writes of this master.
  const { world, master, vandal } = await started(
    t,
    {},
    {
      fault: { type: 'stall', afterEvents: 2 },
      pathPrefix: '/api/v1/namespaces/default/endpoints',
      stream: true,
      times: 1,
    },
  )
  const { time } = world
  const unlabel = () =>
    vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null } } })
  const labels = async () => (await vandal.get(endpoints, KUBERNETES_SERVICE)).metadata?.labels ?? {}
  await unlabel()
  while ((await labels())['endpointslice.kubernetes.io/skip-mirror'] === undefined) await time.advance(10)
  assert.ok(time.nowMs < 5_000 + intervalMs)
  await time.advance(1_900)
  assert.deepEqual(master.logged(/watch differs from the stored object/), [])
  await time.advance(200)
  assert.equal(master.logged(/watch differs from the stored object/).length, 1)
  assert.equal(await master.sample('apiserver_bootstrap_watch_missed_total{resource="endpoints"}'), 1)
  await unlabel()
  await time.advance(100)
  assert.deepEqual(await labels(), { 'endpointslice.kubernetes.io/skip-mirror': 'true' })
  await time.advance(60_000)
  assert.equal(master.logged(/watch differs from the stored object/).length, 1)
})

test('a late event does not count as lost', async (t) => {
  const { world, faults, master, vandal } = await started(t)
  await world.time.advance(3_000)
  faults.add({ fault: { type: 'delay', ms: 1_500 }, stream: true })
  faults.resetStreams()
  await world.time.advance(20_000)
  for (let round = 0; round < 20; round++) {
    await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null } } })
    await world.time.advance(2_900)
  }
  assert.deepEqual(master.logged(/watch differs from the stored object/), [])
})

test('refused or unanswered live reads disturb nothing else, and a refusal is logged once', async (t) => {
  const { world, faults, master, vandal } = await started(t)
  const { time } = world
  const remove = faults.add({
    fault: { type: 'status', status: 403 },
    methods: ['GET'],
    stream: false,
    pathPrefix: '/api/v1/namespaces/default/services',
  })
  await time.advance(60_000)
  assert.equal(master.logged(/refuses a request/).length, 1)
  remove()
  await time.advance(10_000)
  assert.equal(master.logged(/no longer refuses/).length, 1)
  // They do not delay reconciliations either: a master that starts meanwhile is listed at once.
  faults.add({
    fault: { type: 'drop', lost: 'request' },
    methods: ['GET'],
    stream: false,
    pathPrefix: '/api/v1/namespaces/default/services',
  })
  await time.advance(12_000)
  world.start(2)
  await time.advance(1_000)
  assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'])
  await vandal.delete(endpointSlices, KUBERNETES_SERVICE)
  await time.advance(100)
  await vandal.get(endpointSlices, KUBERNETES_SERVICE)
  await time.advance(60_000)
  assert.deepEqual(master.logged(/lost the API server/), [])
})
