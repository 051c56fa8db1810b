import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bytes, openClient, openWatch, patient, refusedWith, untilDone } from '../etcd/etcd-client.ts'
import { leaderOf, startEtcd, startEtcdCluster } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import { untilPasses } from '../peers/until.ts'
import { eventually } from '../support/with-timeout.ts'

describe('several endpoints of a real etcd', { concurrency: false }, () => {
  test('after a kill of one member, requests and watches continue on the next', async (t) => {
    const members = await startEtcdCluster(openOwner(t), 3)
    const etcd = openClient(
      t,
      members.map(({ url }) => url),
    )
    const watch = await openWatch(t, etcd, '/a/')
    const first = (await etcd.create('/a/1', bytes('one'), { signal: patient })) as bigint
    await watch.next('created 1')

    await members[0]?.kill()
    // No read or grant fails.
    assert.equal((await etcd.get('/a/1', patient))?.modRevision, first)
    assert.ok(await etcd.grantLease(15, patient))
    await watch.next('read')
    assert.ok(await etcd.update('/a/1', bytes('two'), first, { signal: patient }))
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

    // The one that came back is as good as the others.
    await members[0]?.start()
    await members[1]?.kill()
    assert.ok(await untilDone('a grant', () => etcd.grantLease(15, patient)))
    assert.ok(await etcd.get('/a/1', patient))
  })

  test('after kills of the leader every acknowledged write is stored, and no write is stored twice', async (t) => {
    const members = await startEtcdCluster(openOwner(t), 3)
    const etcd = openClient(
      t,
      members.map(({ url }) => url),
    )
    const watch = await openWatch(t, etcd, '/count')
    await etcd.create('/count', bytes('0'), { signal: patient })
    let counted = 0
    let unanswered = 0
    let counting = true
    const counter = (async () => {
      while (counting) {
        try {
          const found = await etcd.get('/count', patient)
          assert.ok(found !== undefined)
          const next = bytes(`${Number(new TextDecoder().decode(found.value)) + 1}`)
          try {
            if (await etcd.update('/count', next, found.modRevision, { signal: patient })) counted++
          } catch {
            unanswered++
          }
        } catch {
          // There is no leader for a moment.
        }
      }
    })()
    await eventually('some counting', () => counted > 20, { timeoutMs: 30_000 })
    for (let round = 0; round < 2; round++) {
      const leader = await untilPasses('a leader', () => leaderOf(members), { withinMs: 30_000 })
      await leader.kill()
      const before = counted
      await eventually('counting to go on', () => counted > before + 20, { timeoutMs: 30_000 })
      await leader.start()
    }
    counting = false
    await counter
    const last = await untilDone('the last count', () => etcd.get('/count', patient))
    const stored = Number(new TextDecoder().decode(last?.value))
    assert.ok(
      stored >= counted && stored <= counted + unanswered,
      `${stored} stored, ${counted} counted, ${unanswered} without an answer`,
    )
    await etcd.delete('/count', last?.modRevision ?? 0n, patient)
    await watch.next('deleted ')
  })

  test('a member without a leader fails writes and its watch, and both recover when the other members are back', async (t) => {
    const members = await startEtcdCluster(openOwner(t), 3)
    const [alone, ...others] = members
    const etcd = openClient(t, [alone?.url ?? ''])
    const watch = await openWatch(t, etcd, '/a/')
    for (const other of others) await other.kill()
    await watch.next('ServerError')
    await refusedWith('ServerError', etcd.create('/a/1', bytes('one'), { signal: patient }), /no leader/)
    await Promise.all(others.map((other) => other.start()))
    assert.ok(await untilDone('a write', () => etcd.create('/a/2', bytes('two'), { signal: patient })))
    await watch.next('read')
    assert.deepEqual(
      watch.errors.map(({ code }) => code),
      ['ServerError'],
    )
  })

  test('a closed and a black-holed endpoint do not prevent a renewal', async (t) => {
    const owner = openOwner(t)
    const server = await startEtcd(owner)
    const swallowing = await TcpProxy.start(owner, { target: server.port })
    const etcd = openClient(t, [
      `http://127.0.0.1:${swallowing.port}`,
      `http://127.0.0.1:${await freePort()}`,
      server.url,
    ])
    const renew = async (before: bigint): Promise<bigint> => {
      const lease = (await etcd.grantLease(15, patient)).id
      return (
        (await etcd.update('/lease', bytes(''), before, { lease, signal: patient })) ??
        assert.fail('the lease was not renewed')
      )
    }
    const first = await etcd.create('/lease', bytes(''), {
      lease: (await etcd.grantLease(15, patient)).id,
      signal: patient,
    })
    assert.equal(swallowing.connections, 1)
    swallowing.blackHole(true)
    const second = await renew(first ?? 0n)
    assert.equal((await etcd.get('/lease', patient))?.modRevision, second)

    // The same with a connection that is not made yet.
    const late = openClient(t, [`http://127.0.0.1:${swallowing.port}`, server.url])
    const third = await late.update('/lease', bytes(''), second, { signal: patient })
    assert.ok(third !== undefined, 'a write that was never sent goes to the next endpoint')
  })

  test('requests and a watch move from a suspended member to the next, and back when that one dies', async (t) => {
    const [first, second] = [await startEtcd(openOwner(t)), await startEtcd(openOwner(t))]
    // Two stores, so that the value shows which one answered.
    await openClient(t, [first.url]).create('/who', bytes('first'), { signal: patient })
    await openClient(t, [second.url]).create('/who', bytes('second'), { signal: patient })
    const etcd = openClient(t, [first.url, second.url])
    const who = async (): Promise<string> => new TextDecoder().decode((await etcd.get('/who', patient))?.value)
    assert.equal(await who(), 'first')
    // Only its own pings show this watch that the member has stopped.
    const quiet = await openWatch(t, openClient(t, [first.url, second.url]), '/a/')
    first.pause()
    // The member still answers requests that arrive before the signal does.
    await untilPasses('the other one to answer', async () => assert.equal(await who(), 'second'), { withinMs: 5_000 })
    await quiet.next('Unreachable')
    await quiet.next('read')
    await openClient(t, [second.url]).create('/a/1', bytes('one'), { signal: patient })
    await quiet.next('created 1')
    first.resume()
    assert.equal(await who(), 'second', 'the one that answered last stays the first to be asked')
    await second.kill()
    assert.equal(await who(), 'first')
  })

  test('an error names all endpoints that failed', async (t) => {
    const [one, two] = [await freePort(), await freePort()]
    const etcd = openClient(t, [`http://127.0.0.1:${one}`, `http://localhost:${two}`])
    const line = await refusedWith('Unreachable', etcd.get('/a', patient))
    assert.equal(line, `etcd http://127.0.0.1:${one}: connection refused; http://localhost:${two}: connection refused`)
  })
})
