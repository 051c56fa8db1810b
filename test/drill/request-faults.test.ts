import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  isMet,
  RequestFaults,
  type RequestFilter,
  requestInfo,
  type SentRequest,
} from '../../src/drill/request-faults.ts'

const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'

function sent(method: string, path: string, isWatch = false): SentRequest {
  return { method, path, isWatch }
}

test('requestInfo returns verb, resource and group of a request as in RBAC, or that it is a probe', () => {
  const infoOf = (request: SentRequest): string => {
    const { isProbe, verb, resource, group } = requestInfo(request)
    return isProbe ? 'probe' : `${verb} ${resource}.${group}`
  }
  const table: readonly (readonly [SentRequest, string])[] = [
    [sent('GET', '/api/v1/namespaces/default/endpoints/kubernetes'), 'get endpoints.'],
    [sent('GET', '/api/v1/namespaces/default/endpoints', true), 'watch endpoints.'],
    [sent('GET', '/api/v1/namespaces/default'), 'get namespaces.'],
    [sent('GET', '/api/v1/namespaces'), 'list namespaces.'],
    [sent('POST', leases), 'create leases.coordination.k8s.io'],
    [sent('PUT', `${leases}/a`), 'update leases.coordination.k8s.io'],
    [sent('DELETE', `${leases}/a`), 'delete leases.coordination.k8s.io'],
    [sent('PATCH', '/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1'), 'patch ipaddresses.networking.k8s.io'],
    [sent('GET', '/readyz'), 'probe'],
    [sent('GET', '/3/readyz'), 'probe'],
    [sent('GET', '/apis/discovery.k8s.io'), 'undefined undefined.undefined'],
  ]
  assert.deepEqual(
    table.map(([request]) => infoOf(request)),
    table.map(([, words]) => words),
  )
})

test('a filter matches requests by kind, resource and verb, and an empty filter matches all', () => {
  const requests = [sent('GET', '/readyz'), sent('DELETE', `${leases}/a`), sent('GET', leases)]
  const met = (filter: RequestFilter): readonly boolean[] => requests.map((request) => isMet(filter, request))
  assert.deepEqual(met({}), [true, true, true])
  assert.deepEqual(met({ only: 'probe' }), [true, false, false])
  assert.deepEqual(met({ only: 'api' }), [false, true, true])
  assert.deepEqual(met({ resource: 'leases' }), [false, true, true])
  assert.deepEqual(met({ resource: 'leases.coordination.k8s.io', verb: 'delete' }), [false, true, false])
  assert.deepEqual(met({ resource: 'endpoints' }), [false, false, false])
})

test('of several faults the longest delay applies, and a hang takes precedence over an error status', () => {
  const faults = new RequestFaults()
  const get = sent('GET', leases)
  faults.add({ fault: { type: 'delay', byMs: 100 } })
  faults.add({ fault: { type: 'delay', byMs: 300 } })
  faults.add({ fault: { type: 'hang' }, resource: 'leases' })
  const refused = { type: 'status', status: 403 } as const
  faults.add({ fault: refused })
  assert.deepEqual(faults.applyTo(get), { delayMs: 300, end: { type: 'hang' } })
  assert.deepEqual(faults.applyTo(sent('GET', '/readyz')), { delayMs: 300, end: refused })
  assert.equal(faults.remove({ fault: { type: 'hang' }, resource: 'leases' }), true)
  assert.deepEqual(faults.applyTo(get), { delayMs: 300, end: refused })
  assert.equal(faults.remove({ fault: { type: 'hang' } }), false)
})

test('lose-event drops one event of each watched resource, and no bookmark', () => {
  const faults = new RequestFaults()
  const watch = sent('GET', '/api/v1/namespaces/default/endpoints', true)
  const other = sent('GET', leases, true)
  assert.equal(faults.loses(watch, { type: 'MODIFIED' }), false)
  faults.add({ fault: { type: 'delay', byMs: 100 } })
  assert.equal(faults.loses(watch, { type: 'MODIFIED' }), false, 'another fault loses nothing')
  faults.add({ fault: { type: 'lose-event' } })
  const lost = [
    faults.loses(watch, { type: 'BOOKMARK' }),
    faults.loses(watch, { type: 'MODIFIED' }),
    faults.loses(watch, { type: 'MODIFIED' }),
    faults.loses(other, { type: 'DELETED' }),
  ]
  assert.deepEqual(lost, [false, true, false, true])
})

test('the age limit of a watch is the shortest of the cut-watches faults that match its resource', () => {
  const faults = new RequestFaults()
  const watch = sent('GET', leases, true)
  faults.add({ fault: { type: 'cut-watches' } })
  assert.equal(faults.watchLimitMs(watch), undefined)
  faults.add({ fault: { type: 'cut-watches', everyMs: 10_000 } })
  faults.add({ fault: { type: 'cut-watches', everyMs: 5_000 }, resource: 'endpoints' })
  assert.equal(faults.watchLimitMs(watch), 10_000)
  faults.add({ fault: { type: 'cut-watches', everyMs: 7_000 }, resource: 'leases' })
  faults.add({ fault: { type: 'cut-watches', everyMs: 30_000 } })
  assert.equal(faults.watchLimitMs(watch), 7_000)
})
