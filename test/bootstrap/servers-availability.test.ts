import assert from 'node:assert/strict'
import { test } from 'node:test'
import { availabilityByServer } from '../../src/bootstrap/servers-availability.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { Availability } from '../../src/kube/availability.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { LeaseStoreError } from '../../src/kubernetes-service/leases/wrappers.ts'
import { RequestTimeout } from '../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

function openServers() {
  const time = new VirtualClock()
  const [clock, logger] = [time.view(), memoryLogger()]
  const api = new Availability({ clock, logger })
  const etcd = new Availability({ clock, logger, server: 'etcd' })
  const own = new Availability({ clock, logger, server: 'the lease store' })
  return { api, etcd, own, leases: etcd, logger, time }
}

for (const [server, error] of [
  ['api', new KubeError('Unreachable', 'connection refused')],
  ['etcd', new EtcdError('Unreachable', 'connection refused')],
  ['own', new LeaseStoreError('update', new Error('connection refused'))],
  ['etcd', new RequestTimeout(1_500)],
] as const) {
  test(`an outage of ${server} (${error.name}) affects only that server, until the failed part succeeds or is forgotten`, async () => {
    const { time, ...servers } = openServers()
    const availability = availabilityByServer(servers)
    availability.succeeded('lease')
    const lost = () => (['api', 'etcd', 'own'] as const).filter((name) => !servers[name].available)
    availability.failed('lease', error)
    assert.deepEqual(lost(), [server])
    availability.succeeded('lease')
    assert.deepEqual(lost(), [])
    await time.advance(5_000)
    availability.failed('lease', error)
    availability.forget('lease')
    assert.deepEqual(lost(), [])
    assert.equal(servers.logger.lines.filter(({ message }) => message.startsWith('lost ')).length, 2)
  })
}

test('a server that has not answered is logged as not reachable, even if another server has answered', () => {
  const servers = openServers()
  const availability = availabilityByServer(servers)
  availability.succeeded('services')
  availability.failed('lease', new EtcdError('Unreachable', 'connection refused'))
  availability.failed('services', new KubeError('Unreachable', 'connection refused'))
  const logged = servers.logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  assert.deepEqual(logged, ['cannot reach etcd', 'lost the API server'])
})

test('a permanent refusal of a part by either server is found with its message', () => {
  for (const error of [new KubeError('Forbidden', 'not you'), new EtcdError('PermissionDenied', 'not you')]) {
    const availability = availabilityByServer(openServers())
    assert.equal(availability.refusalOf('lease'), undefined)
    availability.failed('lease', error)
    assert.equal(availability.refusalOf('lease'), 'not you')
  }
})
