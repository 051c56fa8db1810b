import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FleetView } from '../../src/kubernetes-service/fleet-view.ts'
import {
  type Holder,
  type HolderState,
  type MasterLease,
  OWN_ETCD,
} from '../../src/kubernetes-service/leases/master-leases.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

function lease(number: number, state: HolderState = 'ready'): MasterLease {
  const address = `192.0.2.${number}`
  const ports = { securePort: 6443, nodePort: 0 }
  const holder = { instanceId: 'i', host: `host-${number}`, startedAt: '', addresses: [address], ports, state }
  return { address, holder }
}

function setUp() {
  const time = new VirtualClock()
  const metrics = prometheusMetrics()
  const fleet = new FleetView({ clock: time.view(), metrics, ttlMs: 15_000 })
  const delays = async (): Promise<readonly number[]> => {
    const text = await metrics.expose()
    return ['count', 'sum'].map((what) =>
      Number(new RegExp(`removal_delay_seconds_${what} (\\S+)`).exec(text)?.[1] ?? Number.NaN),
    )
  }
  return { time, metrics, fleet, delays }
}

test('the removal delay is measured from the notice of a change, once for each removal', async () => {
  const { time, fleet, delays } = setUp()
  fleet.read([lease(1), lease(2)])
  await time.advance(10_000)
  fleet.noticed()
  await time.advance(100)
  fleet.noticed()
  fleet.read([lease(1)])
  await time.advance(200)
  fleet.read([lease(1)])
  assert.deepEqual(fleet.removed('192.0.2.2'), { reason: 'lease-ended' })
  assert.deepEqual(await delays(), [1, 0.3])
  assert.deepEqual(fleet.removed('192.0.2.2'), { reason: 'lease-ended' })
  assert.deepEqual(fleet.removed('198.51.100.1'), { reason: 'no-lease' })
  assert.deepEqual(await delays(), [1, 0.3])
})

test('the removal delay of a master that returned in between is measured from its last departure', async () => {
  const { time, fleet, delays } = setUp()
  fleet.read([lease(1), lease(2)])
  fleet.read([lease(1)])
  await time.advance(5_000)
  fleet.read([lease(1), lease(2)])
  await time.advance(5_000)
  fleet.read([lease(1), lease(2, 'unready')])
  assert.equal(fleet.removed('192.0.2.2').reason, 'unready')
  assert.deepEqual(await delays(), [1, 0])
})

test('the reason of a removal follows the last record of the master', () => {
  const { fleet } = setUp()
  const { address, holder } = lease(5, 'withdrawn')
  const hasLeft: MasterLease = { address, holder: { ...(holder as Holder), departure: 'life-5/1' } }
  fleet.read([lease(1), lease(2, 'leaving'), lease(3, 'withdrawn'), lease(4, 'failing'), hasLeft])
  fleet.read([lease(1)])
  const reasons = [2, 3, 4, 5].map((number) => fleet.removed(`192.0.2.${number}`).reason)
  assert.deepEqual(reasons, ['leaving', 'withdrawn', 'lease-ended', 'leaving'])
  assert.equal(fleet.hostOf('192.0.2.4'), 'host-4')
})

test('the removal of an unready master has the reason from its record, as long as its lease has not ended', () => {
  const { fleet } = setUp()
  const because = (number: number, state: HolderState, reason: string): MasterLease => {
    const { address, holder } = lease(number, state)
    return { address, holder: { ...(holder as Holder), reason } }
  }
  const all = [because(2, 'unready', 'refused'), because(3, 'unready', OWN_ETCD), because(4, 'failing', 'refused')]
  fleet.read([lease(1), ...all])
  fleet.read([lease(1), ...all.slice(0, 2)])
  const removals = [2, 3, 4].map((number) => fleet.removed(`192.0.2.${number}`))
  assert.deepEqual(removals, [
    { reason: 'unready', detail: 'refused' },
    { reason: 'own-etcd' },
    { reason: 'lease-ended' },
  ])
  assert.deepEqual(
    [2, 4].map((number) => fleet.isKnown(`192.0.2.${number}`)),
    [true, false],
  )
})

test('masters are counted by the state in their records; foreign masters and suspected expiries have states of their own', async () => {
  const { fleet, metrics } = setUp()
  fleet.read([
    lease(1),
    lease(2),
    lease(3, 'unready'),
    { address: '192.0.2.4' },
    { ...lease(5), expirySuspected: true },
  ])
  const text = await metrics.expose()
  const counts = [...text.matchAll(/masters\{state="([\w-]+)"\} ([1-9]\d*)/g)].map(
    ([, state, count]) => `${state} ${count}`,
  )
  assert.deepEqual(counts.sort(), ['foreign 1', 'ready 2', 'suspected-expiry 1', 'unready 1'])
})

test('a lease that disappears before its TTL has passed counts as evicted, or as leaving if it has no record', async () => {
  const { time, fleet } = setUp()
  const renewed = (number: number, renewal: string): MasterLease => ({ ...lease(number), renewal })
  const foreign = (renewal: string): MasterLease => ({ address: '192.0.2.4', renewal })
  const suspected = (one: MasterLease): MasterLease => ({ ...one, expirySuspected: true })
  fleet.read([lease(1), renewed(2, 'a'), renewed(3, 'a'), foreign('a')])
  await time.advance(10_000)
  fleet.read([lease(1), renewed(2, 'b'), renewed(3, 'b'), foreign('b')])
  await time.advance(14_000)
  fleet.read([lease(1), renewed(2, 'c'), renewed(3, 'b'), foreign('c')])
  // All three were renewed after the first read, the third a moment ago at the latest.
  await time.advance(1)
  fleet.read([lease(1), suspected(renewed(2, 'c')), suspected(renewed(3, 'b')), suspected(foreign('c'))])
  await time.advance(300)
  fleet.read([lease(1)])
  const reasons = [2, 3, 4].map((number) => fleet.removed(`192.0.2.${number}`).reason)
  assert.deepEqual(reasons, ['evicted', 'lease-ended', 'leaving'])
})
