import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { refusedWith } from '../../../src/apiserver/faults.ts'
import { ipAddresses, type Service, serviceCidrs, services } from '../../../src/kube/resources.ts'
import type { ApiRequest, Transport } from '../../../src/kube/transport.ts'
import type { WritePermit } from '../../../src/repair/repair.ts'
import { IpAddressWorld, ipOf } from './world.ts'

const path = '/apis/networking.k8s.io/v1/ipaddresses'

/** Calls `before` when a request is on its way, and `after` when it has been done. */
function hooked(hooks: {
  readonly before?: (request: ApiRequest) => Promise<void>
  readonly after?: (request: ApiRequest) => Promise<void>
}): (inner: Transport) => Transport {
  return (inner) => ({
    async send(request, signal) {
      await hooks.before?.(request)
      const response = await inner.send(request, signal)
      await hooks.after?.(request)
      return response
    },
    close: () => inner.close(),
  })
}

test('an IPAddress created for a Service that is deleted meanwhile is deleted again', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  let deleted = false
  const through = hooked({
    async before({ method }) {
      if (method !== 'POST' || deleted) return
      deleted = true
      await world.deleteService('web')
    },
  })
  const master = world.master({ through })
  await world.advance(1_000)
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.equal(deleted, true)
  assert.deepEqual(await world.ips(), [])
  assert.deepEqual(master.writes, [`POST ${ip}`, `DELETE ${ip}`])
  await world.end()
})

test('a failed deletion of an IPAddress that was created for a deleted Service is retried until it succeeds', async () => {
  const world = await IpAddressWorld.start()
  const [ip, other] = await world.services(2)
  assert.ok(ip && other)
  const through = hooked({
    async before({ method, path: asked }) {
      if (method !== 'POST') return
      const name = asked === path ? ip : ''
      if (name !== '') await world.deleteService('web-0').catch(() => {})
    },
  })
  const master = world.master({ through })
  await world.advance(1_000)
  master.line.faults.add({ fault: { type: 'status', status: 500 }, methods: ['DELETE'], times: 8 })
  await world.deleteIp(ip)
  await world.advance(330)
  assert.equal((await world.ips()).length, 2, 'the IPAddress is there without its Service')
  await world.advance(3_000)
  await world.assertRight()
  await world.end()
})

test('the retry of a failed deletion does not affect a Service that has got the address since', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  const through = hooked({
    async before({ method }) {
      if (method === 'POST') await world.deleteService('web').catch(() => {})
    },
  })
  const master = world.master({ through })
  await world.advance(1_000)
  master.line.faults.add({ fault: { type: 'status', status: 500 }, methods: ['DELETE'], times: 8 })
  await world.deleteIp(ip)
  await world.advance(330)
  assert.ok(master.writes.includes(`DELETE ${ip}`))
  await world.deleteIp(ip)
  await world.service('other', { clusterIP: ip })
  const uid = (await world.ip(ip))?.metadata?.uid
  await world.advance(3_000)
  assert.equal((await world.ip(ip))?.metadata?.uid, uid)
  await world.assertRight()
  await world.end()
})

test('the deletion of a needless IPAddress does not affect a Service that has got the address since the check', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  let deleted = false
  let uid: string | undefined
  const through = hooked({
    async before({ method, path: asked }) {
      if (method === 'POST' && asked === path && !deleted) {
        deleted = true
        await world.deleteService('web')
      } else if (method === 'DELETE' && uid === undefined) {
        await world.deleteIp(ip)
        await world.service('other', { clusterIP: ip })
        uid = (await world.ip(ip))?.metadata?.uid
      }
    },
  })
  world.master({ through })
  await world.advance(1_000)
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.ok(uid !== undefined)
  assert.equal((await world.ip(ip))?.metadata?.uid, uid)
  await world.assertRight()
  await world.end()
})

test('no IPAddress is created for a Service that was deleted before the write', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  const master = world.master()
  await world.advance(1_000)
  // The watch of Services lags behind, so only a live read shows the deletion.
  master.line.faults.add({ fault: { type: 'delay', ms: 400 }, pathPrefix: '/api/v1/services', stream: true })
  master.line.faults.resetStreams()
  await world.advance(2_000)
  await world.deleteService('web')
  await world.makeIp(ip, { name: 'web' })
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.deepEqual(master.writes, [])
  assert.deepEqual(await world.ips(), [])
  await world.end()
})

test('the IPAddress of a Service that the watch has not delivered yet is not deleted', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  await world.advance(20_000)
  // The watch of Services lags minutes behind.
  master.line.faults.add({ fault: { type: 'delay', ms: 600_000 }, pathPrefix: '/api/v1/services', stream: true })
  master.line.faults.resetStreams()
  await world.advance(2_000)
  const ip = ipOf(await world.service('web'))
  const uid = (await world.ip(ip))?.metadata?.uid
  await world.advance(180_000)
  assert.deepEqual(master.writes, [])
  assert.equal((await world.ip(ip))?.metadata?.uid, uid)
  await world.end()
})

test('an IPAddress that another client corrects between check and write is not changed', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  let right: string | undefined
  const through = hooked({
    async before({ method }) {
      if (method !== 'DELETE' || right !== undefined) return
      await world.deleteIp(ip)
      right = (await world.makeIp(ip, { name: 'web' })).metadata?.uid
    },
  })
  const master = world.master({ through })
  await world.advance(1_000)
  await world.deleteIp(ip)
  await world.makeIp(ip, { name: 'wrong' })
  await world.advance(1_000)
  assert.deepEqual(master.writes, [`DELETE ${ip}`])
  assert.equal((await world.ip(ip))?.metadata?.uid, right)
  await world.end()
})

test('releases that the watch delivers late cause no request', async () => {
  const world = await IpAddressWorld.start()
  await world.services(20)
  const master = world.master()
  await world.advance(200_000)
  master.line.faults.add({ fault: { type: 'delay', ms: 400 }, pathPrefix: path, stream: true })
  master.line.faults.resetStreams()
  await world.advance(10_000)
  for (let i = 0; i < 20; i++) {
    await world.deleteService(`web-${i}`)
    await world.advance(50)
  }
  await world.advance(200_000)
  assert.deepEqual(master.requests, [])
  await world.end()
})

test('an address in a ServiceCIDR that the watch delivers late is not reported', async () => {
  const world = await IpAddressWorld.start()
  const master = world.master()
  await world.advance(10_000)
  const faults = {
    fault: { type: 'delay', ms: 400 },
    pathPrefix: '/apis/networking.k8s.io/v1/servicecidrs',
    stream: true,
  } as const
  master.line.faults.add(faults)
  master.line.faults.resetStreams()
  await world.advance(2_000)
  await world.server.api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['192.0.2.0/24'] } })
  await world.service('web', { clusterIP: '192.0.2.7' })
  await world.advance(400_000)
  assert.deepEqual(master.recorded, [])
  assert.deepEqual(master.requests, [])
  await world.end()
})

test('masters that repair the same damage at once write each IPAddress once and then send no more requests', async () => {
  const world = await IpAddressWorld.start()
  const ips = await world.services(200)
  const masters = [world.master(), world.master(), world.master()]
  for (const master of masters) master.line.faults.add({ fault: { type: 'delay', ms: 3 } })
  await world.advance(1_000)
  const before = world.server.server.revision
  for (const ip of ips.slice(0, 100)) await world.deleteIp(ip)
  for (const ip of ips.slice(100)) {
    await world.deleteIp(ip)
    await world.makeIp(ip, { name: 'wrong' })
  }
  const damaged = world.server.server.revision
  await world.advance(2_000)
  await world.assertRight()
  assert.equal(damaged - before, 100 + 200)
  assert.equal(world.server.server.revision - damaged, 100 + 200, 'each was created once, each wrong one deleted once')
  const attempts = masters.flatMap((master) => master.writes).filter((write) => write.startsWith('POST')).length
  assert.ok(attempts < 300, `${attempts} attempts to make 200: they seldom meet`)
  for (const { logger, metrics } of masters) {
    assert.deepEqual(
      logger.lines.filter(({ message }) => message.includes('the API server')),
      [],
    )
    assert.doesNotMatch(
      await metrics.expose(),
      /repair_reconcile_errors_total [1-9]/,
      'a lost race is not counted as an error',
    )
  }
  const requests = masters.map((master) => master.requests.length)
  await world.advance(600_000)
  assert.deepEqual(
    masters.map((master) => master.requests.length),
    requests,
  )
  assert.ok(masters.every(({ settled, repair }) => settled && repair.fault() === undefined))
  await world.end()
})

test('nothing is written without a permit, and the permit is requested only if something is wrong', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  let asked = 0
  let granted = false
  const permit: WritePermit = {
    mode: 'repair',
    async granted() {
      asked++
      return granted
    },
  }
  const master = world.master({ permit })
  await world.advance(1_000)
  assert.equal(asked, 0)
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.equal(asked, 1)
  assert.deepEqual(master.writes, [])
  assert.deepEqual(master.recorded, [])
  granted = true
  await world.advance(200_000)
  await world.assertRight()
  await world.end()
})

test('beside a server that repairs by itself, full passes report the problems and write nothing', async () => {
  const world = await IpAddressWorld.start()
  const [ip = '', shared = ''] = await world.services(2)
  const master = world.master({ permit: { mode: 'report', granted: async () => true } })
  await world.advance(1_000)
  assert.equal(master.settled, true)
  await world.deleteIp(ip)
  await world.makeIp('10.96.0.9', { name: 'gone' })
  await world.advance(100)
  await world.deleteIp(shared)
  await world.service('second', { clusterIP: shared })
  await world.advance(100_000)
  assert.deepEqual(master.recorded, [])
  await world.advance(100_000)
  assert.deepEqual(master.recorded.toSorted(), [
    `ClusterIPAlreadyAllocated Cluster IP [IPv4]:${shared} was assigned to multiple services; please recreate service`,
    `ClusterIPNotAllocated Cluster IP [IPv4]: ${ip} is not allocated`,
    'IPAddressNotAllocated IPAddress: 10.96.0.9 for Service default/gone appears to have leaked',
  ])
  assert.deepEqual(master.writes, [])
  await world.end()
})

test('new Services whose IPAddresses arrive late are not reported, and lost IPAddresses still are', async () => {
  const world = await IpAddressWorld.start()
  const late = { fault: { type: 'delay', ms: 700 }, stream: true, pathPrefix: path } as const
  const master = world.master({ faults: [late] })
  await world.advance(10_000)
  const [ip = ''] = await world.services(5)
  await world.advance(20_000)
  assert.ok(master.writes.length > 0, 'the repair tried to create the IPAddresses')
  assert.deepEqual(master.recorded, [])
  await world.assertRight()
  await world.deleteIp(ip)
  await world.advance(4_000)
  assert.equal(master.recorded.length, 1)
  await world.end()
})

describe('requests that the server refuses are retried until they succeed', () => {
  for (const status of [403, 409, 429, 500, 503]) {
    test(`creates that fail with ${status} are each reported once, and the repair settles only after they succeed`, async () => {
      const world = await IpAddressWorld.start()
      for (const ip of await world.services(20)) await world.deleteIp(ip)
      const master = world.master()
      master.line.faults.add({ fault: { type: 'status', status }, methods: ['POST'], pathPrefix: path })
      // A conflict counts as another client's repair, until it lasts longer than a watch can lag.
      const seconds = status === 409 ? 20 : 5
      await world.advance(seconds * 1_000)
      assert.equal(master.settled, false)
      if (status !== 409)
        assert.match(master.repair.fault() ?? '', new RegExp(`IPAddresses cannot be repaired: .*${status}`))
      assert.ok(master.requests.length < 120 * seconds, `${master.requests.length} requests in ${seconds} s`)
      assert.equal(master.events.length, 20, 'each finding is one Event')
      master.line.faults.clear()
      await world.advance(12_000)
      assert.equal(master.settled, true)
      assert.equal(master.repair.fault(), undefined)
      await world.assertRight()
      await world.end()
    })
  }

  test('a first read of the Services that fails for 30 seconds is retried soon', async () => {
    const world = await IpAddressWorld.start()
    for (const ip of await world.services(20)) await world.deleteIp(ip)
    const master = world.master()
    const failing = { fault: { type: 'status', status: 500 }, pathPrefix: '/api/v1/services', stream: false } as const
    const remove = master.line.faults.add(failing)
    await world.advance(30_000)
    assert.equal(master.settled, false)
    assert.deepEqual(master.recorded, [])
    assert.match(master.repair.fault() ?? '', /500/)
    assert.ok(master.requests.length < 60, `${master.requests.length} lists in 30 s`)
    remove()
    await world.advance(1_500)
    assert.equal(master.settled, true)
    await world.assertRight()
    await world.end()
  })

  test('a first read of the Services that fails for 200 ms is retried within 1.5 seconds', async () => {
    const world = await IpAddressWorld.start()
    for (const ip of await world.services(20)) await world.deleteIp(ip)
    const master = world.master()
    const failing = { fault: { type: 'status', status: 500 }, pathPrefix: '/api/v1/services', stream: false } as const
    const remove = master.line.faults.add(failing)
    await world.advance(200)
    assert.equal(master.settled, false)
    remove()
    await world.advance(1_500)
    assert.equal(master.settled, true)
    await world.end()
  })

  test('an orphan whose deletion is refused for a moment is deleted soon after, not at the next interval', async () => {
    const world = await IpAddressWorld.start()
    const master = world.master({ intervalMs: 3_600_000 })
    await world.advance(1_000)
    await world.makeIp('10.96.0.77', { name: 'never-made' })
    const remove = master.line.faults.add({ fault: { type: 'status', status: 500 }, methods: ['DELETE'] })
    await world.advance(61_000)
    assert.deepEqual(master.writes, ['DELETE 10.96.0.77'])
    remove()
    await world.advance(10_000)
    assert.equal(await world.ip('10.96.0.77'), undefined)
    await world.end()
  })

  test('one address that the server refuses permanently does not delay the others', async () => {
    const world = await IpAddressWorld.start()
    const [refused, ...ips] = await world.services(10)
    const through = (inner: Transport): Transport => ({
      send: (request, signal) => {
        const { name } = (request.body as { metadata?: { name?: string } } | undefined)?.metadata ?? {}
        if (request.method === 'POST' && name === refused) return Promise.resolve(refusedWith(403, undefined))
        return inner.send(request, signal)
      },
      close: () => inner.close(),
    })
    const master = world.master({ through })
    await world.advance(1_000)
    await world.deleteIp(refused ?? '')
    await world.advance(60_000)
    for (const ip of ips) await world.deleteIp(ip)
    await world.advance(400)
    assert.equal((await world.ips()).length, 9)
    assert.ok(master.writes.filter((write) => write === `POST ${refused}`).length < 25)
    await world.end()
  })

  test('after an outage of the server all IPAddresses are in sync within 2.5 seconds', async () => {
    const world = await IpAddressWorld.start()
    const ips = await world.services(30)
    const master = world.master()
    await world.advance(1_000)
    const remove = master.line.faults.add({ fault: { type: 'refuse' } })
    master.line.faults.resetStreams()
    for (const ip of ips) await world.deleteIp(ip)
    await world.deleteService('web-3')
    await world.advance(60_000)
    remove()
    await world.advance(2_500)
    await world.assertRight()
    await world.end()
  })
})

test('the repair waits for the default ServiceCIDR, and reports that as its fault', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  await world.deleteIp(ip)
  const { api } = world.server
  await api.delete(serviceCidrs, { name: 'kubernetes' })
  await api.create(serviceCidrs, { metadata: { name: 'other' }, spec: { cidrs: ['192.0.2.0/24'] } })
  const master = world.master()
  await world.advance(100_000)
  assert.match(master.repair.fault() ?? '', /^waiting for the ServiceCIDR kubernetes to be created$/)
  assert.equal(master.settled, false)
  assert.deepEqual(master.recorded, [])
  await api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/16'] } })
  await world.advance(200)
  await world.assertRight()
  assert.equal(master.settled, true)
  assert.equal(master.repair.fault(), undefined)
  await world.end()
})

test('a server without IPAddresses is not repaired; after its upgrade the repair begins', async () => {
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  await world.deleteIp(ip)
  const master = world.master({ faults: [{ fault: { type: 'status', status: 404 }, pathPrefix: path }] })
  assert.equal(master.repair.served, 'unknown')
  await world.advance(60_000)
  assert.equal(master.repair.served, 'absent')
  assert.equal(master.repair.fault(), undefined)
  master.line.faults.clear()
  await world.advance(12_000)
  assert.equal(master.repair.served, 'served')
  assert.equal(master.settled, true)
  await world.assertRight()
  await world.end()
})

test('changes during broken watches, also after a compaction, are repaired once the watches are back', async () => {
  const world = await IpAddressWorld.start()
  const ips = await world.services(12)
  const master = world.master()
  await world.advance(1_000)
  for (let i = 0; i < 10; i++) {
    master.line.faults.resetStreams()
    const remove = master.line.faults.add({ fault: { type: 'refuse' }, stream: true })
    await world.deleteIp(ips[i] ?? '')
    if (i % 2 === 0) world.server.server.compact()
    await world.advance(300)
    remove()
    await world.advance(1_500)
    await world.assertRight()
  }
  assert.deepEqual(
    master.writes.toSorted(),
    ips
      .slice(0, 10)
      .map((ip) => `POST ${ip}`)
      .sort(),
  )
  await world.end()
})

test('a wall clock that is wrong by days neither expedites nor delays a repair', async () => {
  const day = 86_400_000
  const world = await IpAddressWorld.start()
  const ip = ipOf(await world.service('web'))
  const masters = [world.master({ skewMs: day }), world.master({ skewMs: -day })]
  await world.advance(1_000)
  await world.makeIp('10.96.0.9', { name: 'in-the-making' })
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.ok(await world.ip(ip))
  for (const { clock } of masters) clock.setSkew(3 * day)
  await world.advance(58_000)
  assert.ok(await world.ip('10.96.0.9'))
  await world.advance(3_000)
  assert.equal(await world.ip('10.96.0.9'), undefined)
  await world.end()
})

test('the repair ends at once when stopped, and sends no more requests', async () => {
  const world = await IpAddressWorld.start()
  for (const ip of await world.services(40)) await world.deleteIp(ip)
  const master = world.master()
  master.line.faults.add({ fault: { type: 'delay', ms: 50 }, methods: ['POST'] })
  await world.advance(60)
  master.stop()
  await world.advance(0)
  await master.ended
  const { length } = master.requests
  await world.advance(600_000)
  assert.equal(master.requests.length, length)
  assert.equal((await world.server.api.list(ipAddresses)).items.length < 40, true)
})

/**
 * A server that converts a Service to one without an address as kube-apiserver does: it deletes the IPAddress, then
 * stores the Service.
 */
async function convertedAfter(pauseMs: number) {
  const world = await IpAddressWorld.start(undefined, { serviceAllocators: 'none' })
  const ip = '10.96.0.7'
  await world.makeIp(ip, { name: 'web' })
  const { metadata, spec } = await world.service('web', { clusterIP: ip, clusterIPs: [ip] })
  const master = world.master()
  await world.advance(1_000)
  await world.deleteIp(ip)
  await world.advance(pauseMs)
  const { clusterIP: _ip, clusterIPs: _ips, ipFamilies: _families, ipFamilyPolicy: _policy, ...rest } = spec ?? {}
  await world.server.api.update(services, {
    metadata,
    spec: { ...rest, type: 'ExternalName', externalName: 'a.example' },
  } as Service)
  return { world, master, ip }
}

test('an address that a Service gives up is not recreated while its server stores the Service', async () => {
  const { world, master } = await convertedAfter(40)
  await world.advance(10_000)
  assert.deepEqual(master.writes, [])
  assert.deepEqual(master.recorded, [])
  await world.end()
})

test('the IPAddress of a Service that is deleted right after its creation is not recreated', async () => {
  const world = await IpAddressWorld.start(undefined, { serviceAllocators: 'none' })
  const master = world.master()
  await world.advance(1_000)
  const ip = '10.96.0.7'
  await world.makeIp(ip, { name: 'web' })
  await world.service('web', { clusterIP: ip, clusterIPs: [ip] })
  await world.advance(1)
  await world.deleteIp(ip)
  await world.advance(40)
  await world.deleteService('web')
  await world.advance(10_000)
  assert.deepEqual(master.writes, [])
  await world.end()
})

test('an IPAddress that was recreated because the server was slow is deleted once the Service is stored', async () => {
  const { world, master, ip } = await convertedAfter(3_000)
  assert.deepEqual(master.writes, [`POST ${ip}`])
  await world.advance(1_000)
  assert.equal((await world.ips()).length, 1, 'the server may be releasing it itself')
  await world.advance(1_500)
  assert.deepEqual(await world.ips(), [])
  assert.deepEqual(master.writes, [`POST ${ip}`, `DELETE ${ip}`])
  await world.end()
})

test('a recreated IPAddress that the server releases and another Service takes is not deleted', async () => {
  const world = await IpAddressWorld.start()
  const [ip] = await world.services(1)
  assert.ok(ip)
  const master = world.master()
  await world.advance(1_000)
  await world.deleteIp(ip)
  await world.advance(1_000)
  assert.deepEqual(master.writes, [`POST ${ip}`])
  await world.deleteService('web-0')
  await world.service('other', { clusterIP: ip })
  await world.advance(10_000)
  assert.deepEqual(master.writes, [`POST ${ip}`])
  await world.assertRight()
  await world.end()
})
