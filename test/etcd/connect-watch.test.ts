import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { EtcdCredentials } from '../../src/etcd/connect-credentials.ts'
import { EndpointPool } from '../../src/etcd/connect-pool.ts'
import { watchPrefix } from '../../src/etcd/connect-watch.ts'
import { EtcdError, type KeyChange } from '../../src/etcd/kv.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { Event_EventType } from '../../src/protobuf/gen/etcd/api/mvccpb/kv_pb.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'
import { type FakeEtcd, startFakeEtcd } from './fake-etcd.ts'

const OPEN_MS = 3_000

test('a watch starts after the revision of a read on the same server, and then reports that anything may have changed', async (t) => {
  const { etcd, log, established } = await watching(t)
  await established()
  assert.deepEqual(etcd.requests, [
    'read /w/ 1, within 60000m',
    'watch /w/ to /w0 from 8 with what was, within any time',
  ])
  assert.deepEqual(log, ['established', 'read'])
})

test('if the server states no revision, the watch starts at revision 1', async (t) => {
  const { etcd, established } = await watching(t, {
    prepare({ etcd }) {
      etcd.read = () => ({})
    },
  })
  await established()
  assert.match(etcd.requests[1] ?? '', / from 1 /)
})

test('each change has its revision and previous value, and the changes of one response arrive together', async (t) => {
  const { etcd, changes, established } = await watching(t)
  await established()
  const kv = (key: string, value: string, createRevision: bigint, modRevision: bigint) => ({
    key: bytes(`/w/${key}`),
    value: bytes(value),
    createRevision,
    modRevision,
  })
  etcd.watches[0]?.send(
    {
      events: [
        {
          type: Event_EventType.PUT,
          kv: kv('a', 'one', 8n, 8n),
          prevKv: kv('a', 'from before it was created', 2n, 3n),
        },
        { type: Event_EventType.PUT, kv: kv('a', 'two', 8n, 9n), prevKv: kv('a', 'one', 8n, 8n) },
        { type: Event_EventType.PUT },
      ],
    },
    {
      events: [
        { type: Event_EventType.DELETE, kv: kv('a', 'ignored', 0n, 10n), prevKv: kv('a', 'two', 8n, 9n) },
        { type: Event_EventType.DELETE, kv: kv('b', '', 0n, 11n) },
        { type: Event_EventType.PUT, kv: kv('c', 'three', 4n, 12n) },
      ],
    },
  )
  await eventually('the changes', () => changes.length === 2)
  assert.deepEqual(changes, [
    [
      { type: 'created', key: '/w/a', value: bytes('one'), previousValue: undefined, modRevision: 8n },
      { type: 'modified', key: '/w/a', value: bytes('two'), previousValue: bytes('one'), modRevision: 9n },
    ],
    [
      { type: 'deleted', key: '/w/a', value: bytes(''), previousValue: bytes('two'), modRevision: 10n },
      { type: 'deleted', key: '/w/b', value: bytes(''), previousValue: undefined, modRevision: 11n },
      { type: 'modified', key: '/w/c', value: bytes('three'), previousValue: undefined, modRevision: 12n },
    ],
  ])
})

test('a watch that ends is reported once and reopened, and then reports that anything may have changed', async (t) => {
  const { etcd, log, errors, established, pause } = await watching(t)
  await established()
  etcd.watches[0]?.end()
  await pause(50)
  assert.deepEqual(errors(), [`Unreachable etcd ${etcd.url}: the server ended the watch`])
  await established()
  assert.deepEqual(log, ['established', 'read', 'Unreachable', 'established', 'read'])
  etcd.watches[1]?.end()
  await pause(100)
  assert.deepEqual(log.slice(5), ['Unreachable'], 'a failure after a success is reported again')
})

test('a repeated failure is reported again only if it differs', async (t) => {
  const { etcd, log, established, pause, time } = await watching(t, {
    prepare({ etcd }) {
      etcd.read = () => {
        throw new ConnectError('database is locked', Code.Unknown)
      }
    },
  })
  await pause(50)
  await pause(100)
  assert.deepEqual(log, ['ServerError'])
  etcd.read = () => {
    throw new ConnectError('etcdserver: permission denied', Code.PermissionDenied)
  }
  await pause(200)
  await pause(400)
  assert.deepEqual(log, ['ServerError', 'PermissionDenied'])
  etcd.read = () => ({})
  await time.advance(800)
  await established()
  assert.deepEqual(log, ['ServerError', 'PermissionDenied', 'established', 'read'])
})

test('a watch that breaks early is reopened after pauses that grow up to three seconds', async (t) => {
  const { established, pause, etcd } = await watching(t)
  for (const pauseMs of [50, 100, 200, 400, 800, 1_500, 1_500]) {
    await established()
    etcd.watches.at(-1)?.end()
    await pause(pauseMs)
  }
})

test('the pauses start over only after a watch has been established for five seconds', async (t) => {
  const { established, pause, etcd, time } = await watching(t)
  const lasts = async (stoodMs: number, pauseMs: number): Promise<void> => {
    await established()
    await time.advance(stoodMs)
    etcd.watches.at(-1)?.end()
    await pause(pauseMs)
  }
  await lasts(0, 50)
  await lasts(4_999, 100)
  await lasts(5_000, 50)
  await lasts(0, 100)
  await established()
  etcd.first = { canceled: true }
  etcd.watches.at(-1)?.end()
  await pause(200)
  await time.advance(5_000)
  await pause(400)
})

test('a watch that breaks moves to the next endpoint; one that was compacted stays', async (t) => {
  const { etcd, other, errors, established, pause, pool, stop } = await watching(t, { servers: 2 })
  await established()
  etcd.watches[0]?.send({ canceled: true, compactRevision: 9n, cancelReason: 'etcdserver: mvcc: required revision' })
  await pause(50)
  await established()
  assert.deepEqual([etcd.watches.length, other.watches.length, etcd.open], [2, 0, 1], 'the previous watch is closed')
  etcd.watches[1]?.send({ canceled: true, cancelReason: 'etcdserver: no leader' })
  await pause(100)
  await established()
  assert.deepEqual([etcd.watches.length, other.watches.length], [2, 1])
  other.watches[0]?.send({ canceled: true })
  await pause(200)
  await established()
  assert.equal(etcd.watches.length, 3)
  const asked = await pool.ask('repeatable', stop.signal, async (server) => server)
  await asked.connection.close(new EtcdError('Unreachable', 'no response to a ping from the server'))
  await pause(400)
  await established()
  assert.equal(other.watches.length, 2)
  await eventually('the end of the others', () => etcd.open === 0 && other.open === 1)
  assert.deepEqual(errors(), [
    `Compacted etcd ${etcd.url}: the watch fell behind and its revision was compacted`,
    `ServerError etcd ${etcd.url}: etcdserver: no leader`,
    `ServerError etcd ${other.url}: the server ended the watch`,
    `Unreachable etcd ${etcd.url}: no response to a ping from the server`,
  ])
})

test('a watch that is refused permission reports which permission it needs', async (t) => {
  const cancelReason = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied'
  const { etcd, errors, pause } = await watching(t, {
    prepare({ etcd }) {
      etcd.first = { created: true, canceled: true, cancelReason }
    },
  })
  await pause(50)
  assert.deepEqual(errors(), [
    `PermissionDenied etcd ${etcd.url}: ${cancelReason}; this needs the permission to read all of /w/`,
  ])
  await eventually('the end of the stream', () => etcd.open === 0)
})

for (const [what, stage] of [
  ['read without an answer', 'read'],
  ['watch without a confirmation', 'first'],
] as const) {
  const requests = stage === 'read' ? 1 : 2
  const prepare = ({ etcd }: { readonly etcd: FakeEtcd }): void => {
    if (stage === 'read') etcd.read = () => undefined
    else etcd.first = undefined
  }

  test(`a ${what} is abandoned in time, and the watch moves to another endpoint`, async (t) => {
    const { etcd, other, established, time, log } = await watching(t, { servers: 2, prepare })
    await eventually('the request', () => etcd.requests.length === requests)
    await time.advance(OPEN_MS - 1)
    assert.equal(other.requests.length, 0)
    await time.advance(1)
    await established()
    assert.equal(other.watches.length, 1)
    assert.deepEqual(log, ['established', 'read'])
    await eventually('the end of the other', () => etcd.open === 0)
  })

  test(`a ${what} ends with the signal, without a report`, async (t) => {
    const { etcd, log, stop, ended } = await watching(t, { prepare })
    await eventually('the request', () => etcd.requests.length === requests)
    stop.abort()
    await ended()
    assert.deepEqual(log, [])
    await eventually('the end of the stream', () => etcd.open === 0)
  })
}

test('an established watch has no time limit, and ends with the signal', async (t) => {
  const { etcd, log, established, stop, ended, time, timers } = await watching(t)
  await established()
  assert.equal(timers(), 0)
  await time.advance(10 * OPEN_MS)
  stop.abort()
  await ended()
  assert.deepEqual(log, ['established', 'read'])
  await eventually('the end of the stream', () => etcd.open === 0)
  assert.deepEqual(getEventListeners(stop.signal, 'abort'), [])
})

test('after the signal no change is delivered, even one received before', async (t) => {
  const { etcd, log, changes, established, stop, ended, onChange } = await watching(t)
  await established()
  onChange(() => stop.abort())
  const event = { type: Event_EventType.PUT, kv: { key: bytes('/w/a') } }
  etcd.watches[0]?.send({ events: [event] }, { events: [event] }, { events: [event] })
  await ended()
  assert.equal(changes.length, 1)
  assert.deepEqual(log, ['established', 'read'])
})

test('aborting the signal ends a pause, and no further request is sent', async (t) => {
  const { etcd, established, pausing, stop, ended, time, timers } = await watching(t)
  await established()
  etcd.watches[0]?.end()
  await pausing()
  assert.equal(timers(), 1)
  stop.abort()
  await ended()
  assert.equal(timers(), 0)
  await time.advance(10_000)
  assert.equal(etcd.requests.length, 2)
  assert.deepEqual(getEventListeners(stop.signal, 'abort'), [])
})

test('closing the pool ends the watch, and a later one at once, without a report', async (t) => {
  const { log, established, pool, ended, again } = await watching(t)
  await established()
  await pool.close()
  await ended()
  await withTimeout(again(), 20_000, 'a watch of closed connections')
  assert.deepEqual(log, ['established', 'read'])
})

test('an error thrown by the report callback on a failure ends the watch and removes its abort listeners', async (t) => {
  const thrown = new Error('a mistake')
  const { etcd, established, stop, pool, ended, onReport } = await watching(t)
  await established()
  onReport(() => {
    throw thrown
  })
  etcd.watches[0]?.end()
  await assert.rejects(ended(), thrown)
  assert.deepEqual(
    [stop.signal, pool.closing].map((signal) => getEventListeners(signal, 'abort')),
    [[], []],
  )
})

test('an error thrown by the onChange callback ends the watch and is not reported as a failure', {
  timeout: 30_000,
}, async (t) => {
  const thrown = new Error('a mistake')
  const { etcd, log, established, stop, pool, ended, onChange } = await watching(t)
  await established()
  onChange(() => {
    throw thrown
  })
  etcd.watches[0]?.send({ events: [{ type: Event_EventType.PUT, kv: { key: bytes('/w/a') } }] })
  await assert.rejects(ended(), thrown)
  assert.deepEqual(log, ['established', 'read'])
  await eventually('the end of the stream', () => etcd.open === 0)
  assert.deepEqual(
    [stop.signal, pool.closing].map((signal) => getEventListeners(signal, 'abort')),
    [[], []],
  )
})

test('an error thrown by the report callback on establishment ends the watch and is not reported as a failure', {
  timeout: 30_000,
}, async (t) => {
  const thrown = new Error('a mistake')
  const { etcd, log, ended, onReport } = await watching(t)
  onReport(() => {
    throw thrown
  })
  await assert.rejects(ended(), thrown)
  assert.deepEqual(log, ['established'])
  await eventually('the end of the stream', () => etcd.open === 0)
})

/** A watch of `/w/` on one or two servers. Its first pause is of 50 ms, the second of 100 ms. */
async function watching(
  t: Cleanup,
  {
    servers = 1,
    prepare = () => {},
  }: {
    readonly servers?: 1 | 2
    readonly prepare?: (of: { readonly etcd: FakeEtcd; readonly other: FakeEtcd }) => void
  } = {},
) {
  const [etcd, other] = [await startFakeEtcd(t), await startFakeEtcd(t)]
  prepare({ etcd, other })
  const time = new VirtualClock()
  const own = time.view()
  const pauses: number[] = []
  const clock: Clock = {
    ...own,
    schedule(delayMs, callback) {
      if (delayMs !== OPEN_MS) pauses.push(delayMs)
      return own.schedule(delayMs, callback)
    },
  }
  const ever = 1e9
  const pool = new EndpointPool({
    endpoints: [etcd, other].slice(0, servers).map(({ url }) => parseEndpoint(url)),
    credentials: new EtcdCredentials({}, { clock, logger: silentLogger }),
    clock: time.view(),
    logger: silentLogger,
    times: { connectMs: ever, pingAfterMs: ever, silenceMs: ever, pongMs: ever, idleMs: ever },
    requestTimeoutMs: 60_000,
  })
  const stop = new AbortController()
  const log: string[] = []
  const failures: EtcdError[] = []
  const changes: (readonly KeyChange[])[] = []
  let onChange = (): void => {}
  let onReport = (): void => {}
  const again = (): Promise<void> =>
    watchPrefix({ pool, clock, random: { next: () => 0.5 }, requestTimeoutMs: OPEN_MS }, '/w/', {
      signal: stop.signal,
      onChange(batch) {
        if (batch === undefined) log.push('read')
        else changes.push(batch)
        onChange()
      },
      report(error) {
        if (error !== undefined) failures.push(error as EtcdError)
        log.push(error === undefined ? 'established' : (error as EtcdError).code)
        onReport()
      },
    })
  const done = again()
  const ended = (): Promise<void> => withTimeout(done, 20_000, 'the end of the watch')
  t.after(async () => {
    stop.abort()
    await pool.close()
    await ended().catch(() => {})
  })
  let expected = 0
  let paused = 0
  const pausing = async (): Promise<number> => {
    paused++
    await eventually('a pause', () => pauses.length >= paused)
    return pauses[paused - 1] ?? 0
  }
  return {
    etcd,
    other,
    time,
    pool,
    log,
    changes,
    stop,
    ended,
    again,
    errors: () => failures.map(({ code, message }) => `${code} ${message}`),
    timers: () => own.timers,
    onChange(act: () => void): void {
      onChange = act
    },
    onReport(act: () => void): void {
      onReport = act
    },
    /** Resolves when the watch is established once more. */
    async established(): Promise<void> {
      expected++
      await eventually('an established watch', () => log.filter((line) => line === 'read').length >= expected)
    },
    pausing,
    /** Asserts that the watch pauses for `pauseMs`, and lets the pause pass. */
    async pause(pauseMs: number): Promise<void> {
      assert.equal(await pausing(), pauseMs)
      await time.advance(pauseMs)
    },
  }
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}
