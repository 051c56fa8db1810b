import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { bytes, openClient, openWatch, patient, refusedWith } from '../etcd/etcd-client.ts'
import { startEtcd } from '../peers/etcd.ts'
import { EtcdFaultProxy } from '../peers/etcd-fault-proxy.ts'
import { openOwner } from '../peers/owner.ts'

async function start(t: TestContext) {
  const owner = openOwner(t)
  const server = await startEtcd(owner)
  const proxy = await EtcdFaultProxy.start(owner, server)
  return { proxy, etcd: openClient(t, [proxy.url]), direct: openClient(t, [server.url]) }
}

test('the proxy forwards etcd calls and fails those that its rules select', async (t) => {
  const { proxy, etcd, direct } = await start(t)
  const first = (await etcd.create('/a', bytes('one'), { signal: patient })) as bigint
  assert.equal((await direct.get('/a', patient))?.modRevision, first)

  const refused = proxy.place({ fault: { type: 'answer', status: 403 }, resources: ['LeaseGrant'] })
  await refusedWith('PermissionDenied', etcd.grantLease(15, patient), /the fault proxy answers 403/)
  assert.ok(await etcd.get('/a', patient))
  assert.equal(refused.hits, 1)
  refused.end()
  assert.ok(await etcd.grantLease(15, patient))

  const lost = proxy.place({ fault: { type: 'lost-answer' }, resources: ['Txn'] })
  await assert.rejects(etcd.create('/b', bytes('two'), { signal: patient }))
  lost.end()
  assert.ok(await direct.get('/b', patient), 'the write was executed')

  const hang = proxy.place({ fault: { type: 'hang' }, resources: ['Txn'] })
  await assert.rejects(etcd.create('/c', bytes('three'), { signal: AbortSignal.timeout(300) }))
  hang.end()
  assert.equal(await direct.get('/c', patient), undefined)

  for (const type of ['delay', 'late-answer'] as const) {
    proxy.place({ fault: { type, ms: 200 }, resources: ['Range'], times: 1 })
    assert.ok(await etcd.get('/b', patient))
  }
})

test('a cut-watches rule for Watch cuts a watch, which the client reopens; a rule for Txn does not', async (t) => {
  const { proxy, etcd, direct } = await start(t)
  const watch = await openWatch(t, etcd, '/a/')
  proxy.place({ fault: { type: 'cut-watches', everyMs: 60_000 }, resources: ['Txn'], times: 1 })
  await direct.create('/a/1', bytes('one'), { signal: patient })
  await watch.next('created 1')
  assert.deepEqual(watch.errors, [])
  proxy.place({ fault: { type: 'cut-watches', everyMs: 60_000 }, resources: ['Watch'], times: 1 })
  await watch.next('Unreachable')
  await watch.next('read')
  await direct.create('/a/2', bytes('two'), { signal: patient })
  await watch.next('created 2')
  assert.equal(watch.errors.length, 1)
})

test('a proxy of etcd that refused connections accepts them again', async (t) => {
  const { proxy, etcd } = await start(t)
  assert.ok(await etcd.create('/a', bytes('one'), { signal: patient }))
  await proxy.refuse()
  await refusedWith('Unreachable', etcd.get('/a', patient))
  await proxy.accept()
  assert.ok(await etcd.get('/a', patient))
})
