import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serviceCidrs, services } from '../../../src/kube/resources.ts'
import type { Clock } from '../../../src/runtime/clock.ts'
import { busyClock } from '../../runtime/working-clock.ts'
import { allocatorLabels, IpAddressWorld, ipOf } from './world.ts'

test('500 IPAddresses deleted at once are restored with parents and labels within a second, by one request each', async () => {
  const world = await IpAddressWorld.start()
  const ips = await world.services(500)
  const master = world.master()
  await world.advance(1_000)
  assert.equal(master.settled, true)
  assert.equal(master.requests.length, 0, 'without damage no request is sent')

  for (const ip of ips) await world.deleteIp(ip)
  await world.advance(1_000)
  await world.assertRight()
  const created = master.requests.filter((request) => request.startsWith('POST'))
  assert.equal(created.length, 500)
  assert.deepEqual(
    [...new Set(master.requests.filter((request) => !request.startsWith('POST')))],
    ['GET /api/v1/services'],
    'the Services are read before and after, in lists',
  )
  assert.equal(master.requests.length - created.length, 2)
  await world.end()
})

test('a full pass over many Services and IPAddresses pauses between slices', async () => {
  const world = await IpAddressWorld.start()
  await world.services(500)
  const { timed, pauses } = busyClock()
  const master = world.master({ timed })
  await world.advance(10_000)
  assert.equal(master.settled, true)
  const before = pauses()
  await world.advance(180_000)
  // 500 Services and 500 IPAddresses. A slice is 160 steps.
  assert.ok(pauses() - before >= 6, `${pauses() - before} pauses`)
  assert.deepEqual(master.requests, [])
  await world.end()
})

test('damage that arrives over 40 ms is repaired in one batch', async () => {
  const world = await IpAddressWorld.start()
  const ips = await world.services(80)
  const master = world.master()
  await world.advance(1_000)
  for (const ip of ips) {
    await world.deleteIp(ip)
    await world.advance(0.5)
  }
  await world.advance(400)
  await world.assertRight()
  assert.equal(master.requests.filter((request) => request.startsWith('GET')).length, 2)
  await world.end()
})

test('the normal creation and deletion of Services cause no request', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  await world.advance(1_000)
  for (let i = 0; i < 50; i++) {
    await world.service(`web-${i}`)
    await world.advance(7)
  }
  for (let i = 0; i < 50; i += 2) {
    await world.deleteService(`web-${i}`)
    await world.advance(7)
  }
  await world.advance(600_000)
  assert.deepEqual(master.requests, [])
  assert.deepEqual(master.recorded, [])
  await world.end()
})

test('a lost IPAddress is reported once, with the event of upstream, and counted', async () => {
  const world = await IpAddressWorld.start()
  const service = await world.service('web')
  const master = world.master()
  await world.advance(1_000)
  await world.deleteIp(ipOf(service))
  await world.advance(1_000)
  assert.deepEqual(
    master.events.map(({ type, reason, action, note, regarding }) => ({ type, reason, action, note, regarding })),
    [
      {
        type: 'Warning',
        reason: 'ClusterIPNotAllocated',
        action: 'ClusterIPAllocation',
        note: `Cluster IP [IPv4]: ${ipOf(service)} is not allocated; repairing`,
        regarding: {
          apiVersion: 'v1',
          kind: 'Service',
          namespace: 'default',
          name: 'web',
          uid: service.metadata?.uid,
          resourceVersion: service.metadata?.resourceVersion,
        },
      },
    ],
  )
  const metrics = await master.metrics.expose()
  assert.match(metrics, /apiserver_clusterip_repair_ip_errors_total\{type="repair"\} 1/)
  assert.match(metrics, /apiserver_bootstrap_repairs_total\{repair="cluster-ip",reason="ClusterIPNotAllocated"\} 1/)
  await world.end()
})

test('an IPAddress with a wrong parent is recreated within a second, whether or not that parent exists', async () => {
  const world = await IpAddressWorld.start()
  const [first, second, third] = await world.services(3)
  assert.ok(first && second && third)
  const master = world.master()
  await world.advance(1_000)
  const parents = [
    [first, { name: 'gone' }],
    [second, { name: 'web-2' }],
    [third, { group: 'example.com', resource: 'gateways', name: 'web-2' }],
  ] as const
  for (const [ip, parent] of parents) {
    await world.deleteIp(ip)
    await world.makeIp(ip, parent)
  }
  await world.advance(1_000)
  await world.assertRight()
  assert.equal(master.recorded.length, 3)
  for (const note of master.recorded)
    assert.match(note, /^ClusterIPNotAllocated the ClusterIP .* has a wrong reference; repairing$/)
  assert.deepEqual(
    [...master.writes].sort(),
    [first, second, third].flatMap((ip) => [`DELETE ${ip}`, `POST ${ip}`]).sort(),
  )
  await world.end()
})

test('wrong labels are corrected in place, and other labels and annotations are preserved', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  const before = await world.ip(ip)
  assert.ok(before)
  const master = world.master()
  await world.advance(1_000)
  const labels = { 'ipaddress.kubernetes.io/ip-family': 'IPv6', team: 'a' }
  const annotations = { note: 'mine' }
  await world.server.send('PUT', `/apis/networking.k8s.io/v1/ipaddresses/${ip}`, {
    ...before,
    metadata: { ...before.metadata, labels, annotations },
  })
  await world.advance(1_000)
  const after = await world.ip(ip)
  assert.equal(after?.metadata?.uid, before.metadata?.uid)
  assert.deepEqual(after?.metadata?.labels, { ...before.metadata?.labels, team: 'a' })
  assert.deepEqual(after?.metadata?.annotations, annotations)
  assert.deepEqual(master.writes, [`PUT ${ip}`])
  assert.deepEqual(master.recorded, [], 'wrong labels cause no Event, as in upstream')
  await world.end()
})

test('an orphan is deleted after 60 seconds, not before', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  await world.advance(20_000)
  await world.makeIp('10.96.0.77', { name: 'never-made' })
  await world.advance(59_900)
  assert.ok(await world.ip('10.96.0.77'))
  assert.deepEqual(master.requests, [])
  await world.advance(300)
  assert.equal(await world.ip('10.96.0.77'), undefined)
  assert.deepEqual(master.recorded, [
    'IPAddressNotAllocated IPAddress: 10.96.0.77 for Service default/never-made appears to have leaked: cleaning up',
  ])
  await world.end()
})

test('orphans that become due over ten seconds are deleted in at most four batches, five seconds apart', async () => {
  const world = await IpAddressWorld.start()
  world.master()
  await world.advance(10_000)
  for (let i = 0; i < 20; i++) {
    await world.makeIp(`10.96.0.${100 + i}`, { name: 'gone' })
    await world.advance(500)
  }
  let left = 20
  const batchesMs: number[] = []
  for (let ms = 0; ms < 80_000; ms += 500) {
    await world.advance(500)
    const { length } = await world.ips()
    if (length < left) batchesMs.push(ms)
    left = length
  }
  assert.equal(left, 0)
  assert.ok(batchesMs.length <= 4, `${batchesMs.length} times some were deleted`)
  for (const [index, ms] of batchesMs.slice(1).entries())
    assert.ok(ms - (batchesMs[index] ?? 0) >= 5_000, `${batchesMs}`)
  await world.end()
})

test('an old IPAddress whose Service was deleted is deleted five seconds after the Service', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/16'], { serviceAllocators: 'none' })
  await world.service('web', { clusterIP: '10.96.0.9' })
  await world.makeIp('10.96.0.9', { name: 'web' })
  const master = world.master()
  await world.advance(100_000)
  await world.deleteService('web')
  await world.advance(4_900)
  assert.ok(await world.ip('10.96.0.9'))
  assert.deepEqual(master.writes, [])
  await world.advance(300)
  assert.deepEqual(await world.ips(), [])
  assert.deepEqual(master.writes, ['DELETE 10.96.0.9'])
  await world.end()
})

test('an IPAddress that is created anew for a deleted Service is deleted after 60 seconds', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  const master = world.master()
  await world.advance(100_000)
  const left = await world.ip(ip)
  await world.deleteService('web')
  await world.makeIp(ip, { name: 'web' })
  assert.notEqual(left?.metadata?.uid, (await world.ip(ip))?.metadata?.uid)
  await world.advance(59_000)
  assert.ok(await world.ip(ip), 'the new IPAddress may belong to a Service that is being created')
  await world.advance(2_000)
  assert.equal(await world.ip(ip), undefined)
  assert.equal(master.recorded.length, 1)
  await world.end()
})

test('the IPAddress of a Service that is stored only 55 seconds later is not deleted by the repair', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  const slow = {
    takeAddress: () => world.makeIp('10.96.0.50', { name: 'slow' }),
    storeService: async () => {
      await world.deleteIp('10.96.0.50')
      await world.service('slow', { clusterIP: '10.96.0.50' })
    },
  }
  await slow.takeAddress()
  await world.advance(55_000)
  await slow.storeService()
  await world.advance(600_000)
  await world.assertRight()
  assert.deepEqual(master.writes, [])
  await world.end()
})

test('an IPAddress whose Service does not hold the address is deleted after 60 seconds, not before', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/16', 'fd00::/108'])
  await world.service('external', { type: 'ExternalName', externalName: 'example.com', ports: [] })
  await world.service('web', { clusterIP: '10.96.0.10' })
  await world.advance(2_000)
  const master = world.master()
  await world.advance(10_000)
  const unowned = ['10.96.0.31', '10.96.0.32', 'fd00::9']
  await world.makeIp('10.96.0.31', { name: 'external' })
  await world.makeIp('10.96.0.32', { name: 'web' })
  await world.makeIp('fd00::9', { name: 'web' }, { ...allocatorLabels, 'ipaddress.kubernetes.io/ip-family': 'IPv6' })
  const there = async (): Promise<readonly string[]> => {
    const names = (await world.ips()).map(({ metadata }) => metadata?.name ?? '')
    return unowned.filter((name) => names.includes(name))
  }
  await world.advance(59_900)
  assert.deepEqual(await there(), unowned)
  await world.advance(300)
  assert.deepEqual(await there(), [])
  assert.equal(master.recorded.length, 3)
  for (const note of master.recorded)
    assert.match(note, /^IPAddressWrongReference .* has a wrong reference; cleaning up$/)
  await world.assertRight()
  await world.end()
})

test('an IPAddress of another controller is ignored', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  await world.makeIp('10.96.0.40', { group: 'example.com', resource: 'gateways', name: 'a' }, {})
  await world.makeIp('10.96.0.41', { name: 'gone' }, { 'ipaddress.kubernetes.io/managed-by': 'somebody' })
  await world.advance(600_000)
  assert.equal((await world.ips()).length, 2)
  assert.deepEqual(master.requests, [])
  await world.end()
})

test('of two Services with one address the older one retains it, and each full pass reports the other one', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('older'))
  await world.advance(2_000)
  await world.deleteIp(ip)
  await world.service('younger', { clusterIP: ip })
  await world.deleteIp(ip)
  const master = world.master()
  await world.advance(1_000)
  assert.equal((await world.ip(ip))?.spec?.parentRef?.name, 'older')
  const event = `ClusterIPAlreadyAllocated Cluster IP [IPv4]:${ip} was assigned to multiple services; please recreate service`
  assert.deepEqual(master.recorded, [
    `ClusterIPNotAllocated Cluster IP [IPv4]: ${ip} is not allocated; repairing`,
    event,
  ])
  assert.equal(master.settled, true, 'a finding that cannot be repaired does not prevent settling')
  await world.advance(200_000)
  assert.deepEqual(master.recorded.slice(2), [event])

  await world.deleteService('older')
  await world.advance(1_000)
  assert.equal(
    (await world.ip(ip))?.spec?.parentRef?.name,
    'younger',
    'the younger Service gets the address after the older one is deleted',
  )
  await world.end()
})

test('an address outside every ServiceCIDR is reported, and is allocated once a ServiceCIDR contains it', async () => {
  const world = await IpAddressWorld.start()
  const { api } = world.server
  await api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['192.0.2.0/24', 'fd00:1::/64'] } })
  await world.service('web', { clusterIP: '192.0.2.7' })
  await world.deleteIp('192.0.2.7')
  await api.delete(serviceCidrs, { name: 'more' })
  const master = world.master()
  await world.advance(1_000)
  const note = 'Cluster IP [IPv4]: 192.0.2.7 is not within any configured Service CIDR; please recreate service'
  assert.deepEqual(master.recorded, [`ClusterIPOutOfRange ${note}`])
  assert.equal(await world.ip('192.0.2.7'), undefined)

  await api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['192.0.2.0/24', 'fd00:1::/64'] } })
  await world.advance(1_000)
  await world.assertRight()
  assert.deepEqual(master.writes, ['POST 192.0.2.7'])
  await world.end()
})

test('both lost IPAddresses of a dual-stack Service are restored', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/16', 'fd00::/108'])
  const service = await world.service('web', { ipFamilyPolicy: 'RequireDualStack' })
  const master = world.master()
  await world.advance(1_000)
  assert.equal(service.spec?.clusterIPs?.length, 2)
  for (const ip of service.spec?.clusterIPs ?? []) await world.deleteIp(ip)
  await world.advance(1_000)
  await world.assertRight()
  assert.equal(master.events.filter(({ note }) => note.includes('[IPv6]')).length, 1)
  await world.end()
})

test('a Service that an older server stored without an IPAddress gets one within 100 ms', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/16'], { serviceAllocators: 'none' })
  const master = world.master()
  await world.advance(1_000)
  await world.service('web', { clusterIP: '10.96.0.10' })
  await world.advance(100)
  await world.assertRight()
  assert.equal(master.recorded.length, 1)
  await world.end()
})

test('the metrics show the usage of the ranges and the age of the last full pass', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/24'])
  await world.services(3)
  const master = world.master()
  await world.advance(31_000)
  const metrics = await master.metrics.expose()
  assert.match(metrics, /kube_apiserver_clusterip_allocator_allocated_ips\{cidr="10.96.0.0\/24"\} 3\n/)
  assert.match(metrics, /kube_apiserver_clusterip_allocator_available_ips\{cidr="10.96.0.0\/24"\} 251\n/)
  assert.match(metrics, /apiserver_bootstrap_repair_last_pass_age_seconds\{repair="cluster-ip"\} 30\.9/)
  await world.end()
})

test('the metrics drop the range of a deleted ServiceCIDR', async () => {
  const world = await IpAddressWorld.start(['10.96.0.0/24'])
  await world.server.api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['10.97.0.0/24'] } })
  const master = world.master()
  await world.advance(1_000)
  const ranges = async () => {
    const lines = (await master.metrics.expose()).matchAll(/clusterip_allocator_(\w+)_ips\{cidr="(.*)"\}/g)
    return [...lines].map(([, of, cidr]) => `${of} ${cidr}`).sort()
  }
  const first = ['allocated 10.96.0.0/24', 'available 10.96.0.0/24']
  assert.deepEqual(await ranges(), [
    'allocated 10.96.0.0/24',
    'allocated 10.97.0.0/24',
    'available 10.96.0.0/24',
    'available 10.97.0.0/24',
  ])
  await world.server.api.delete(serviceCidrs, { name: 'more' })
  await world.advance(1_000)
  assert.deepEqual(await ranges(), first)
  await world.end()
})

test('the metrics include a range that is created while the first count pauses', async () => {
  const world = await IpAddressWorld.start()
  await world.services(500)
  const { timed } = busyClock()
  let made: Promise<unknown> | undefined
  const waiting = (clock: Clock): Clock => ({
    ...timed(clock),
    schedule(delayMs, callback) {
      if (delayMs > 0 || !master.repair.fault()?.startsWith('waiting for the ServiceCIDR'))
        return clock.schedule(delayMs, callback)
      made ??= world.server.api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['10.97.0.0/24'] } })
      return clock.schedule(50, callback)
    },
  })
  const master = world.master({ timed: waiting })
  await world.advance(10_000)
  await made
  assert.equal(master.settled, true)
  const metrics = await master.metrics.expose()
  assert.match(metrics, /allocated_ips\{cidr="10\.96\.0\.0\/16"\} 500\n/)
  assert.match(metrics, /allocated_ips\{cidr="10\.97\.0\.0\/24"\} 0\n/)
  await world.end()
})

test('after a failed first full pass, a check for a new ServiceCIDR does not count as a full pass', async () => {
  const world = await IpAddressWorld.start()
  await world.deleteIp(ipOf(await world.service('web')))
  const { api } = world.server
  const master = world.master()
  await world.advance(5)
  // The copies are complete. The server refuses only the live read before a write, and each refusal delays the next
  // pass further.
  const fault = { type: 'status', status: 403 } as const
  const admit = master.line.faults.add({ fault, pathPrefix: '/api/v1/namespaces/default/services', stream: false })
  await world.advance(2_000)
  admit()
  await api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['192.0.2.0/24'] } })
  await world.advance(100)
  await world.assertRight()
  assert.equal(master.settled, false)
  await world.advance(10_000)
  assert.equal(master.settled, true)
  await world.end()
})

test('headless and ExternalName Services need no request', async () => {
  const world = await IpAddressWorld.start()
  await world.service('headless', { clusterIP: 'None' })
  await world.service('external', { type: 'ExternalName', externalName: 'example.com', ports: [] })
  const master = world.master()
  await world.advance(200_000)
  assert.deepEqual(master.requests, [])
  assert.equal((await world.server.api.list(services)).items.length, 2)
  await world.end()
})
