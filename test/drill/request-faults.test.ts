import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  impairmentOf,
  isMet,
  RequestFaults,
  type RequestFilter,
  type RequestRule,
  requestInfo,
  type SentRequest,
  silencesProbe,
  smallDelayMs,
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

test('a rule that can hit nothing more is not among the rules, and its hits stay known', () => {
  const watch = sent('GET', '/api/v1/namespaces/default/endpoints', true)
  const hang: RequestRule = { fault: { type: 'hang' }, requests: 2 }
  const faults = new RequestFaults()
  faults.add(hang)
  faults.applyTo(watch)
  assert.deepEqual([faults.rules, faults.hitsOf(hang)], [[hang], 1])
  faults.applyTo(watch)
  faults.applyTo(watch)
  assert.deepEqual([faults.rules, faults.hitsOf(hang), faults.disturbances], [[], 2, 2])

  const [once, often]: readonly RequestRule[] = [0, 1].map((every) => ({
    fault: { type: 'cut-watches', everyMs: every === 0 ? undefined : 5_000 },
  }))
  assert.ok(once !== undefined && often !== undefined)
  faults.add(once)
  faults.countCut(once)
  faults.add(often)
  faults.watchLimitMs(watch)
  assert.deepEqual([faults.rules, faults.hitsOf(once), faults.hitsOf(often)], [[often], 1, 1])
  faults.remove(often)

  const lost: RequestRule = { fault: { type: 'lose-event' }, resource: 'endpoints' }
  const lostOfAll: RequestRule = { fault: { type: 'lose-event' } }
  faults.add(lost)
  faults.loses(watch, { type: 'MODIFIED' })
  faults.add(lostOfAll)
  faults.loses(watch, { type: 'MODIFIED' })
  assert.deepEqual(faults.rules, [lostOfAll], 'of other resources an event may still be lost')
  faults.remove(lostOfAll)
  assert.deepEqual([faults.hitsOf(lost), faults.hitsOf(lostOfAll), faults.disturbances], [1, 1, 6])

  const asked = (retryAfterMs: number): RequestRule => {
    return { fault: { type: 'status', status: 429, retryAfterMs }, requests: 1 }
  }
  for (const ms of [10_000, 11_000]) faults.add(asked(ms))
  faults.applyTo(watch)
  assert.deepEqual(faults.rules, [asked(11_000)], 'a client may still wait for as long as it was asked to')
})

test('a rule impairs a sidecar only if it can match a request that decides about the list', () => {
  const refused = { type: 'status', status: 403 } as const
  const table: readonly (readonly [rule: RequestRule, withLeaseObject: string, withEtcd: string])[] = [
    [{ fault: refused, resource: 'pods' }, 'no', 'no'],
    [{ fault: refused, resource: 'events' }, 'no', 'no'],
    [{ fault: refused, resource: 'leases' }, 'lease', 'no'],
    [{ fault: refused, resource: 'leases.coordination.k8s.io', verb: 'delete' }, 'rest', 'no'],
    [{ fault: refused, resource: 'services' }, 'rest', 'rest'],
    [{ fault: { type: 'hang' }, requests: 2 }, 'rest', 'rest'],
    [{ fault: { type: 'hang' } }, 'lease', 'lease'],
    [{ fault: { type: 'delay', byMs: 51 } }, 'lease', 'lease'],
    [{ fault: { type: 'delay', byMs: 50 } }, 'no', 'no'],
  ]
  for (const [rule, ...impairments] of table) {
    assert.deepEqual([rule, ...[true, false].map((uses) => impairmentOf([rule], uses))], [rule, ...impairments])
  }
})

test('a small delay counts as a slow connection, in which each probe is answered in time', () => {
  const rules = [1, 50, 51].map((byMs): RequestRule => ({ fault: { type: 'delay', byMs } }))
  assert.equal(smallDelayMs(rules), 50)
  assert.deepEqual(
    rules.map((rule) => silencesProbe([rule])),
    [false, false, true],
  )
  const [small] = rules
  assert.ok(small !== undefined)
  const faults = new RequestFaults()
  faults.add(small)
  faults.applyTo(sent('GET', leases))
  assert.deepEqual([faults.hitsOf(small), faults.disturbances], [1, 0])
})
