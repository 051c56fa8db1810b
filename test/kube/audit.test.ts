import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../src/etcd/kv.ts'
import { type AuditUser, answered, audit, audited, objectRefOf } from '../../src/kube/audit.ts'
import { KubeError } from '../../src/kube/errors.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const user = { host: 'host-1', kubeconfigUser: 'admin' }
const entry = {
  ...({ message: 'resetting', verb: 'update', objectRef: { resource: 'endpoints' }, reasons: ['addresses'] } as const),
  before: ['192.0.2.1'],
  after: [],
}
const { message: _, ...fields } = entry
const event = { reason: 'MasterEvicted', regarding: { kind: 'Endpoints' }, note: 'it was removed' } as const

function trail(by: AuditUser | undefined) {
  const logger = memoryLogger()
  const recorded: EventToRecord[] = []
  return { ...{ logger, user: by, events: { record: recorded.push.bind(recorded) }, recorded }, lines: logger.lines }
}

test('an audit line has the user, verb, object, reasons, before, after and outcome; its Event names the user', () => {
  const { lines, recorded, ...rest } = trail(user)
  audit(rest, { ...entry, event })
  assert.deepEqual(lines, [
    { level: 'info', fields: { audit: true, ...fields, outcome: 'written', user }, message: 'resetting' },
  ])
  assert.deepEqual(
    recorded.map(({ reason, type, note }) => [reason, type, note]),
    [['MasterEvicted', 'Normal', 'it was removed (by admin on host-1)']],
  )
})

test('a write whose answer was lost is logged with the outcome unknown, and causes no Event', () => {
  const { lines, recorded, ...rest } = trail(user)
  const error = new KubeError('Timeout', 'no answer')
  audit(rest, { ...entry, error, event })
  const expected = { audit: true, ...fields, outcome: 'unknown', error, user }
  assert.deepEqual(lines, [{ level: 'info', fields: expected, message: 'resetting: no answer' }])
  assert.deepEqual(recorded, [])
})

test('a dry run logs a line without the audit mark, and causes no Event', () => {
  const { lines, recorded, ...rest } = trail(undefined)
  audit(rest, { ...entry, event })
  assert.deepEqual(lines, [{ level: 'info', fields, message: 'resetting' }])
  assert.deepEqual(recorded, [])
})

test('an audit line contains the first 32 items of a long list, and the number of those omitted', () => {
  const { lines, ...rest } = trail(user)
  const after = Array.from({ length: 1_000 }, (_, index) => `2001:db8::${index}`)
  const added = after.map((address) => ({ address, host: 'h'.repeat(300) }))
  audit(rest, { ...entry, after, added })
  const [line] = lines
  assert.deepEqual(line?.fields.after, after.slice(0, 32))
  assert.deepEqual(line?.fields.omitted, { after: 968, added: 968 })
  assert.ok(JSON.stringify(line).length < 16_384)
})

test('a write is not logged if its answer shows that it did nothing', async () => {
  const { lines, ...rest } = trail(user)
  const { signal } = new AbortController()
  const isDone = (removed: boolean): boolean => removed
  assert.equal(await audited(rest, entry, async () => false, { signal, isDone }), false)
  assert.deepEqual(lines, [])
  assert.equal(await audited(rest, entry, async () => true, { signal, isDone }), true)
  assert.equal(lines.length, 1)
})

test('an objectRef has the form that Kubernetes uses in its own audit log', () => {
  const metadata = { namespace: 'default', name: 'kubernetes', uid: 'u', resourceVersion: '7' }
  assert.deepEqual(objectRefOf(endpoints, { metadata }), { resource: 'endpoints', apiVersion: 'v1', ...metadata })
  assert.deepEqual(objectRefOf(endpointSlices, { metadata }), {
    ...{ resource: 'endpointslices', apiGroup: 'discovery.k8s.io', apiVersion: 'v1' },
    ...metadata,
  })
})

const socket = (code: string): Error => Object.assign(new Error('socket'), { code })
const unreachable = (code: string): KubeError => {
  const inner = new KubeError('Unreachable', 'inner', { cause: socket(code) })
  return new KubeError('Unreachable', 'outer', { cause: inner })
}

for (const [name, error, isLost] of [
  ['a time-out', new KubeError('Timeout', ''), true],
  ['a broken connection', unreachable('ECONNRESET'), true],
  ['an error of the server', new KubeError('ServerError', '', { httpStatus: 504 }), true],
  ['an unreadable answer', new KubeError('BadResponse', ''), true],
  ['an etcd without an answer', new EtcdError('Timeout', ''), true],
  ['a refused connection', unreachable('ECONNREFUSED'), false],
  ['an untrusted certificate', unreachable('CERT_HAS_EXPIRED'), false],
  ['a conflict', new KubeError('Conflict', ''), false],
  ['a refusal', new KubeError('Forbidden', ''), false],
  ['too many requests', new KubeError('TooManyRequests', ''), false],
  ['unavailable credentials', new KubeError('NoCredentials', ''), false],
  ['an object that exists already', new KubeError('AlreadyExists', ''), false],
  ['a mistake in the program', new TypeError(''), false],
] as const) {
  test(`outcome of a write after ${name}: ${isLost ? 'open whether the write was done' : 'clear that nothing was written'}`, async () => {
    const lost: unknown[] = []
    const write = (): Promise<never> => Promise.reject(error)
    await assert.rejects(
      answered(write, (reason) => lost.push(reason), undefined),
      error,
    )
    assert.deepEqual(lost, isLost ? [error] : [])
  })
}

test('a write that is aborted under way has an unknown outcome; one that is aborted before it was sent does not', async () => {
  const lost: unknown[] = []
  const stop = new AbortController()
  const write = (): Promise<never> => {
    stop.abort(new Error('stopped'))
    return Promise.reject(stop.signal.reason)
  }
  await assert.rejects(
    answered(write, (reason) => lost.push(reason), stop.signal),
    /stopped/,
  )
  assert.equal(lost.length, 1)
  await assert.rejects(
    answered(write, (reason) => lost.push(reason), stop.signal),
    /stopped/,
  )
  assert.equal(lost.length, 1)
})

test('a write that is refused has a clear outcome, even if it is aborted just after the refusal', async () => {
  const lost: unknown[] = []
  for (const [error, expected] of [
    [new KubeError('Conflict', ''), []],
    [new KubeError('Forbidden', ''), []],
    [new EtcdError('Refused', ''), []],
    [new KubeError('Timeout', ''), ['Timeout']],
  ] as const) {
    const stop = new AbortController()
    const write = (): Promise<never> => {
      stop.abort(new Error('stopped'))
      return Promise.reject(error)
    }
    await assert.rejects(
      answered(write, () => lost.push(error.code), stop.signal),
      error,
    )
    assert.deepEqual(lost, expected)
  }
})
