import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { bytes, openClient, openWatch, patient, refusedWith, startWatch, untilDone } from '../etcd/etcd-client.ts'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'
import { storeAtOnce } from '../peers/stored-values.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'

const options = { signal: patient }

describe('faults of a real etcd and of the connection to it', () => {
  for (const [name, start] of [
    ['etcd', startEtcd],
    ['kine', startKine],
  ] as const) {
    test(`${name} restarts on its port: requests fail with one line meanwhile, then requests and the watch continue`, async (t) => {
      const server = await start(openOwner(t))
      const etcd = openClient(t, [server.url])
      const watch = await openWatch(t, etcd, '/a/')
      const revision = (await etcd.create('/a/1', bytes('one'), options)) as bigint
      await watch.next('created 1')
      await server.kill()
      await watch.next('Unreachable')
      await refusedWith('Unreachable', etcd.get('/a/1', patient), new RegExp(`${server.url}: connection refused$`))
      await refusedWith('Unreachable', etcd.update('/a/1', bytes('two'), revision, options), /connection refused$/)
      await server.start()
      await watch.next('read')
      assert.ok(await etcd.update('/a/1', bytes('two'), revision, options))
      await watch.next('modified 1')
      assert.deepEqual(watch.lines, [
        'established',
        'read',
        'created 1',
        'Unreachable',
        'established',
        'read',
        'modified 1',
      ])
    })
  }

  test('a watch recovers from a graceful stop of the server as it does from a kill', async (t) => {
    const server = await startEtcd(openOwner(t))
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/a/')
    await server.process.stop()
    await watch.next('Unreachable')
    await server.start()
    await watch.next('read')
    assert.deepEqual(watch.lines, ['established', 'read', 'Unreachable', 'established', 'read'])
  })

  test('changes of one transaction that exceed the longest response arrive completely, without a gap', async (t) => {
    const server = await startEtcd(openOwner(t))
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/a/')
    // As large as the bitmap of a /12. Each change also has the previous value.
    const value = new Uint8Array(131_072).fill(1)
    const put = new Map(Array.from({ length: 10 }, (_, index) => [`/a/${index}`, value]))
    await storeAtOnce(server, { put, remove: [] })
    await watch.next('created 9')
    await storeAtOnce(server, { put, remove: [] })
    await watch.next('modified 9')
    const numbers = [...put.keys()].map((key) => key.slice(-1)).sort()
    const changes = (type: string) =>
      watch.lines
        .filter((line) => line.startsWith(type))
        .map((line) => line.slice(-1))
        .sort()
    assert.deepEqual([changes('created'), changes('modified')], [numbers, numbers])
    assert.deepEqual(watch.lines.slice(0, 2), ['established', 'read'])
    assert.equal(watch.lines.length, 22)
  })

  test('a read succeeds although its idle connection broke', async (t) => {
    const owner = openOwner(t)
    const server = await startEtcd(owner)
    const proxy = await TcpProxy.start(owner, { target: server.port })
    const etcd = openClient(t, [`http://127.0.0.1:${proxy.port}`])
    assert.equal(await etcd.get('/a', patient), undefined)
    proxy.cut()
    assert.equal(await etcd.get('/a', patient), undefined)
    // Half open: the first sign is that nothing comes back.
    proxy.halfClose()
    assert.equal(await etcd.get('/a', patient), undefined)
  })

  test('a write whose answer is lost rejects, and a later read finds it done', async (t) => {
    const owner = openOwner(t)
    const server = await startEtcd(owner)
    const proxy = await TcpProxy.start(owner, { target: server.port })
    const etcd = openClient(t, [`http://127.0.0.1:${proxy.port}`, server.url])
    await etcd.get('/a', patient)
    proxy.delay(300)
    const write = refusedWith(
      'Unreachable',
      etcd.create('/a', bytes('one'), options),
      /connection reset|connection closed/,
    )
    const direct = openClient(t, [server.url])
    await untilDone('the write', async () => assert.ok(await direct.get('/a', patient)))
    proxy.cut()
    await write
    const found = await etcd.get('/a', patient)
    assert.ok(found !== undefined)
    assert.ok(await etcd.update('/a', bytes('two'), found.modRevision, options))
  })

  test('a lagging watch reports that its revisions were compacted, and then requests a new read', async (t) => {
    const owner = openOwner(t)
    const server = await startEtcd(owner)
    const proxy = await TcpProxy.start(owner, { target: server.port })
    const etcd = openClient(t, [`http://127.0.0.1:${proxy.port}`])
    const watch = await openWatch(t, etcd, '/a/')
    const direct = openClient(t, [server.url])
    let revision = (await direct.create('/a/1', bytes('one'), options)) as bigint
    await watch.next('created 1')
    // More than the window of the watch, and more than etcd stores for a watch that does not read.
    proxy.hold(true)
    for (let write = 0; write < 400; write++) {
      revision = (await direct.update('/a/1', new Uint8Array(4_000), revision, options)) as bigint
    }
    await server.compact(revision)
    proxy.hold(false)
    await watch.next('Compacted')
    await watch.next('read')
    assert.ok(await direct.create('/a/2', bytes('two'), options))
    await watch.next('created 2')
    assert.match(watch.errors[0]?.message ?? '', /^etcd http:\S+: the watch fell behind [^\n]+$/)
    assert.equal(watch.errors.length, 1)
  })

  for (const [loss, lose] of [
    ['held up and delivered late', (proxy: TcpProxy, on: boolean) => proxy.hold(on)],
    ['swallowed', (proxy: TcpProxy, on: boolean) => proxy.blackHole(on)],
  ] as const) {
    test(`after five seconds in which every packet is ${loss}, reads, writes and the watch work again`, async (t) => {
      const owner = openOwner(t)
      const server = await startEtcd(owner)
      const proxy = await TcpProxy.start(owner, { target: server.port })
      const etcd = openClient(t, [`http://127.0.0.1:${proxy.port}`])
      const direct = openClient(t, [server.url])
      const watch = await openWatch(t, etcd, '/a/')
      let acknowledged = (await etcd.create('/a/1', bytes('one'), options)) as bigint
      await watch.next('created 1')

      lose(proxy, true)
      const renewing = etcd.update('/a/1', bytes('two'), acknowledged, options).catch((error: unknown) => error)
      const granting = etcd.grantLease(15, patient).catch((error: unknown) => error)
      await direct.create('/a/2', bytes('two'), options)
      await sleep(5_000)
      lose(proxy, false)

      for (const result of await Promise.all([renewing, granting])) {
        if (result instanceof Error)
          assert.match(result.message, /no response to a ping|no answer|no connection within/)
      }
      const found = await untilDone(
        'a read',
        async () => (await etcd.get('/a/1', patient)) ?? assert.fail('the key is deleted'),
      )
      assert.ok(found.modRevision >= acknowledged)
      // The update that was held up may arrive between a read and a write.
      acknowledged = await untilDone('a write', async () => {
        const { modRevision } = (await etcd.get('/a/1', patient)) ?? assert.fail('the key is deleted')
        return (await etcd.update('/a/1', bytes('three'), modRevision, options)) ?? assert.fail('the key has changed')
      })
      assert.ok(acknowledged > found.modRevision)
      // The watch either reports the change made meanwhile, or asks its reader to read again.
      await untilDone('the watch', async () =>
        assert.ok(watch.lines.includes('created 2') || watch.lines.lastIndexOf('read') > 1),
      )
      await etcd.create('/a/3', bytes('three'), options)
      await watch.next('created 3')
      assert.ok(watch.errors.length <= 1, watch.lines.join(', '))
    })
  }

  test('the server does not close a silent watch because of its pings', async (t) => {
    const server = await startEtcd(openOwner(t))
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/a/')
    const idle = openClient(t, [server.url])
    const silent = await openWatch(t, idle, '/a/')
    // Three pings on the silent connection, and requests at irregular times on the other.
    for (let request = 0; request < 20; request++) {
      await sleep(1_000)
      if (request % 3 === 0) await etcd.get('/b', patient)
    }
    await etcd.create('/a/1', bytes('one'), options)
    await watch.next('created 1')
    await silent.next('created 1')
    assert.deepEqual(
      [watch.lines, silent.lines],
      [
        ['established', 'read', 'created 1'],
        ['established', 'read', 'created 1'],
      ],
    )
  })

  test('a full database gives NoSpace, allows reads and deletes, and accepts writes again when it has space', async (t) => {
    const server = await startEtcd(openOwner(t), { flags: ['--quota-backend-bytes=16777216'] })
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/fill/')
    let filled = 0
    const fill = async (): Promise<never> => {
      for (;;) {
        await etcd.create(`/fill/${filled}`, new Uint8Array(1_000_000), options)
        filled++
      }
    }
    await refusedWith('NoSpace', fill(), /database space exceeded/)
    await refusedWith('NoSpace', etcd.grantLease(15, patient), /database space exceeded/)
    // Each value is read by its own request: one answer with all of them would be longer than what the client reads of
    // an answer.
    const read = await Promise.all(Array.from({ length: filled + 1 }, (_, i) => etcd.get(`/fill/${i}`, patient)))
    const items = read.filter((item) => item !== undefined)
    // The first write that exceeds the quota is sometimes stored, although it is refused.
    assert.ok(items.length === filled || items.length === filled + 1, `${items.length} of ${filled}`)
    for (const { key, modRevision } of items) assert.equal(await etcd.delete(key, modRevision, patient), true)
    await watch.next(`deleted ${items.length - 1}`)

    await server.compact((await etcd.list('/fill/', options)).revision)
    await server.call('/v3/maintenance/defragment')
    const { alarms } = (await server.call('/v3/maintenance/alarm', { action: 'GET' })) as { alarms: object[] }
    for (const alarm of alarms) await server.call('/v3/maintenance/alarm', { ...alarm, action: 'DEACTIVATE' })
    assert.ok(await etcd.grantLease(15, patient))
    assert.ok(await etcd.create('/fill/again', bytes('one'), options))
    await watch.next('created again')
    assert.deepEqual(watch.errors, [])
  })

  test('an etcd with users refuses a client without a user in one line, and serves it once authentication is off', async (t) => {
    const server = await startEtcd(openOwner(t))
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/a/')
    await server.call('/v3/auth/user/add', { name: 'root', password: 'secret' })
    await server.call('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.call('/v3/auth/enable')
    await refusedWith('Unauthenticated', etcd.get('/a/1', patient), /user name is empty/)
    await refusedWith('Unauthenticated', etcd.create('/a/1', bytes('one'), options), /user name is empty/)
    const refused = startWatch(t, etcd, '/a/')
    await refused.next('Unauthenticated')
    const { token } = (await server.call('/v3/auth/authenticate', { name: 'root', password: 'secret' })) as {
      token: string
    }
    await server.call('/v3/auth/disable', {}, token)
    await refused.next('read')
    assert.ok(await etcd.create('/a/1', bytes('one'), options))
    await refused.next('created 1')
    assert.deepEqual(
      refused.errors.map(({ code }) => code),
      ['Unauthenticated'],
    )
    await watch.next('created 1')
  })

  test('a Unix socket works like a port, and a missing socket is reported', async (t) => {
    const owner = openOwner(t)
    const server = await startKine(owner, { unixSocket: true })
    const etcd = openClient(t, [server.url])
    const watch = await openWatch(t, etcd, '/a/')
    assert.ok(await etcd.create('/a/1', bytes('one'), options))
    await watch.next('created 1')
    await server.kill()
    await watch.next('Unreachable')
    await refusedWith('Unreachable', etcd.get('/a/1', patient), /unix:\/\/\S+: connection refused$/)
    await server.start()
    await watch.next('read')
    assert.ok(await etcd.get('/a/1', patient))
    const none = openClient(t, [`unix://${temporaryDirectory(owner, 'no-socket')}/none.sock`])
    await refusedWith('Unreachable', none.get('/a/1', patient), /there is no such socket$/)
  })

  test('an unknown host, a closed port and a server without TLS each give Unreachable with the reason', async (t) => {
    const unknown = openClient(t, ['http://etcd.invalid:2379'])
    await refusedWith('Unreachable', unknown.get('/a', patient), /no such host|temporary failure in name resolution/)
    const closed = openClient(t, [`http://127.0.0.1:${await freePort()}`])
    await refusedWith('Unreachable', closed.get('/a', patient), /connection refused$/)
    const server = await startEtcd(openOwner(t))
    const tls = openClient(t, [server.url.replace('http:', 'https:')])
    await refusedWith('Unreachable', tls.get('/a', patient), /in the TLS handshake/)
  })
})
