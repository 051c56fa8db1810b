import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isKubeError } from '../../src/kube/errors.ts'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import { configMaps, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { ConfigMapRangeRegistry } from '../../src/repair/registries/config-map.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import { rangeNames } from '../../src/repair/registries/range-registry.ts'
import { RemoteError } from '../../src/runtime/errors.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { openClient } from '../etcd/etcd-client.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { openOwner } from '../peers/owner.ts'
import { storedValues } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'
import {
  patient,
  put,
  type RangeRegistryTarget,
  rangeRegistryContract,
  summaryOf,
  until,
  watching,
} from '../repair/registries/contract.ts'
import { deleteKey, overwriteKey } from '../repair/registries/store-keys.ts'
import type { Cleanup } from '../support/cleanup.ts'

const pass = (ms: number): Promise<void> => sleep(ms)
const name = 'servicenodeports'

for (const { flavour, start } of [
  { flavour: 'etcd', start: startEtcd },
  { flavour: 'kine', start: startKine },
] as const) {
  describe(`ranges in a real ${flavour}`, () => {
    const owner = openOwner({ after })
    let url = ''
    let targets = 0

    before(async () => {
      url = (await start(owner)).url
    })

    rangeRegistryContract(test, (t): RangeRegistryTarget => {
      const prefix = `/contract-${++targets}`
      const etcd = openClient(t, [url])
      return {
        open: () => new EtcdRangeRegistry({ etcd: openClient(t, [url]), prefix }),
        remove: (range) => deleteKey(etcd, `${prefix}/ranges/${range}`),
        damage: (range) => overwriteKey(etcd, `${prefix}/ranges/${range}`, Buffer.from('not what it was')),
        pass,
      }
    })
  })
}

describe('ranges in ConfigMaps of a bare kube-apiserver', () => {
  const owner = openOwner({ after })
  let server: Apiserver

  const connect = async (t: Cleanup, kubeconfig = server.kubeconfig) => {
    const { config, access } = await loadKubeConfig({ kubeconfig })
    const transport = fromKubeConfig(config, { access, clock: systemClock, logger: silentLogger })
    t.after(() => transport.close())
    const api = restKubeApi({ transport, clock: systemClock, random: systemRandom() })
    const registry = () =>
      new ConfigMapRangeRegistry({ api, clock: systemClock, random: systemRandom(), logger: silentLogger })
    return { api, registry }
  }
  const refOf = (range: string) => ({ namespace: 'kube-system', name: `apiserver-bootstrap-${range}` })

  before(async () => {
    server = await startApiserver(owner, { kind: 'bare', etcd: await startEtcd(owner), authorization: 'RBAC' })
  })

  rangeRegistryContract(test, async (t): Promise<RangeRegistryTarget> => {
    const { api, registry } = await connect(t)
    // The server creates kube-system itself, for a ConfigMap of its own, perhaps a moment later.
    await api.create(namespaces, { metadata: { name: 'kube-system' } }).catch((error: unknown) => {
      if (!isKubeError(error, 'AlreadyExists')) throw error
    })
    for (const range of rangeNames) {
      await api.delete(configMaps, refOf(range)).catch((error: unknown) => {
        if (!isKubeError(error, 'NotFound')) throw error
      })
    }
    return {
      open: registry,
      remove: (range) => api.delete(configMaps, refOf(range)),
      async damage(range) {
        await api.patch(configMaps, refOf(range), { type: 'merge', body: { binaryData: null } })
      },
      pass,
    }
  })

  test('an account with rights to these ConfigMaps only can read, write and watch the ranges', async (t) => {
    const { api } = server
    const role = { metadata: { name: 'ledger' } }
    const named = {
      apiGroups: [''],
      resources: ['configmaps'],
      resourceNames: rangeNames.map((range) => refOf(range).name),
      verbs: ['get', 'list', 'watch', 'update'],
    }
    const rules = [named, { apiGroups: [''], resources: ['configmaps'], verbs: ['create'] }]
    const subjects = [{ kind: 'User', name: 'nobody', apiGroup: 'rbac.authorization.k8s.io' }]
    const roleRef = { kind: 'Role', name: 'ledger', apiGroup: 'rbac.authorization.k8s.io' }
    const path = '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system'
    const allowed = await api.send('POST', `${path}/roles`, { body: { ...role, rules } })
    const bound = await api.send('POST', `${path}/rolebindings`, { body: { ...role, subjects, roleRef } })
    assert.deepEqual([allowed.status, bound.status], [201, 201])
    const kubeconfig = writeKubeconfig(`${server.kubeconfig}-nobody`, {
      server: server.url,
      ca: server.authority.certificate,
      token: server.unprivilegedToken,
    })
    const admin = await connect(t)
    const { registry, api: own } = await connect(t, kubeconfig)
    await assert.rejects(own.list(configMaps, { namespace: 'kube-system' }), { code: 'Forbidden' })
    const ledger = registry()
    await untilPasses('the role', () => ledger.read('serviceips', patient), { withinMs: 30_000 })
    for (const range of rangeNames) {
      await admin.api.delete(configMaps, refOf(range)).catch(() => {})
    }
    const seen = await watching({ pass }, ledger, t)
    for (const range of rangeNames) await put(ledger, range, '1-9', 1)
    await put(ledger, name, '1-9', 2)
    await until({ pass }, 'the changes', () => seen.received.length === 4)
    for (const range of rangeNames) {
      assert.deepEqual(seen.of(range).map(summaryOf), range === name ? ['1-9 01', '1-9 02'] : ['1-9 01'])
    }
  })
})

describe('ranges of a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  const key = `/registry/ranges/${name}`

  const stored = async (etcd: Etcd): Promise<Buffer> =>
    (await storedValues(etcd, key)).get(key) ?? assert.fail(`${key} is not there`)
  const services = '/api/v1/namespaces/default/services'
  const create = async (service: string, nodePort: number): Promise<void> => {
    const spec = { type: 'NodePort', ports: [{ port: 80, nodePort }] }
    const body = { metadata: { name: service }, spec }
    assert.equal((await cluster.server.api.send('POST', services, { body })).status, 201)
  }
  const remove = async (service: string): Promise<void> => {
    assert.equal((await cluster.server.api.send('DELETE', `${services}/${service}`)).status, 200)
  }
  const open = (t: Cleanup) => new EtcdRangeRegistry({ etcd: openClient(t, [cluster.etcd.url]), prefix: '/registry' })

  before(async () => {
    cluster = await startCluster(owner, { kind: 'stock', flags: ['--endpoint-reconciler-type=none'] })
    await untilPasses('the range', () => stored(cluster.etcd), { withinMs: 30_000 })
    await untilPasses('a Service', () => create('first', 30_000), { withinMs: 30_000 })
  })

  test('a range that it wrote is decoded and written back byte for byte', async (t) => {
    const registry = open(t)
    for (const [index, port] of [30_001, 32_767, 30_007, 31_234].entries()) {
      await create(`exact-${index}`, port)
      const value = await stored(cluster.etcd)
      const read = await registry.read(name, patient)
      assert.ok(read.type === 'range')
      const bitmap = Bitmap.fromBytes(2768, read.data)
      assert.deepEqual([read.range, read.fixed, bitmap?.has(port - 30_000)], ['30000-32767', undefined, true])
      const data = bitmap?.toBytes() ?? assert.fail('more bits than ports')
      assert.notEqual(await registry.write(name, { range: read.range, data }, read, patient), undefined)
      assert.deepEqual(await stored(cluster.etcd), value)
    }
    for (let index = 0; index < 4; index++) await remove(`exact-${index}`)
  })

  test('its writes and those of this program conflict, and neither loses an allocation of the other', async (t) => {
    const registry = open(t)
    const before = await registry.read(name, patient)
    assert.ok(before.type === 'range')
    await create('meanwhile', 30_100)
    assert.equal(await registry.write(name, before, before, patient), undefined)
    const now = await registry.read(name, patient)
    assert.ok(now.type === 'range')
    const bitmap = Bitmap.fromBytes(2768, now.data)
    assert.ok(bitmap?.has(100))
    bitmap?.add(101)
    const data = bitmap?.toBytes() ?? Buffer.of()
    assert.notEqual(await registry.write(name, { range: now.range, data }, now, patient), undefined)
    const spec = { type: 'NodePort', ports: [{ port: 80, nodePort: 30_101 }] }
    const body = { metadata: { name: 'taken' }, spec }
    assert.equal((await cluster.server.api.send('POST', services, { body })).status, 422)
    await create('beside', 30_102)
    for (const service of ['meanwhile', 'beside']) await remove(service)
  })

  test('a watch reports every allocation and release in order, and requests a new read after an outage of etcd', async (t) => {
    const registry = open(t)
    const target = { pass }
    const seen = await watching(target, registry, t)
    for (let round = 0; round < 5; round++) {
      await create('seen', 30_200)
      await remove('seen')
    }
    await until(target, 'ten changes', () => seen.received.length >= 10)
    assert.deepEqual(
      seen.received.map((change) => change.type === 'range' && Bitmap.fromBytes(2768, change.data)?.has(200)),
      Array.from({ length: 10 }, (_, index) => index % 2 === 0),
    )
    const read = await registry.read(name, patient)
    const last = seen.received.at(-1)
    assert.ok(read.type === 'range' && last?.type === 'range' && read.revision === last.revision)

    await cluster.etcd.kill()
    const failure = await registry.read(name, patient).catch((error: unknown) => error)
    assert.ok(failure instanceof RemoteError && failure.nature === 'away', `${failure}`)
    await until(target, 'the report of the outage', () => seen.log.includes('failed'))
    await cluster.etcd.start()
    const etcd = openClient(t, [cluster.etcd.url])
    const { modRevision } = (await etcd.get(key, patient)) ?? assert.fail('the range is gone')
    await cluster.etcd.compact(modRevision)
    await until(target, 'a notification', () => seen.log.filter((line) => line === 'read').length === 2)
    await untilPasses('a Service', () => create('again', 30_201), { withinMs: 60_000 })
    await until(target, 'the change', () => seen.received.length > 10)
    const change = seen.received.at(-1)
    assert.ok(change?.type === 'range' && Bitmap.fromBytes(2768, change.data)?.has(201))
  })
})

test('a write that etcd answers too late takes effect, or the next write over the same read replaces it', async (t) => {
  const etcd = await startEtcd(openOwner(t))
  const registry = new EtcdRangeRegistry({
    etcd: openClient(t, [etcd.url], { requestTimeoutMs: 1_000 }),
    prefix: '/registry',
  })
  const first = await put(registry, name, '1-9', 1)
  etcd.pause()
  const failure = await registry
    .write(name, { range: '1-9', data: Buffer.of(2) }, first, patient)
    .catch((error: unknown) => error)
  etcd.resume()
  assert.ok(failure instanceof RemoteError && failure.nature === 'away', `${failure}`)
  await untilPasses('a read', () => registry.read(name, patient), { withinMs: 30_000 })
  // The first write may have happened until now, or may still happen: a read that does not show it does not exclude it.
  const again = await registry.write(name, { range: '1-9', data: Buffer.of(4) }, first, patient)
  assert.equal(summaryOf(await registry.read(name, patient)), again === undefined ? '1-9 02' : '1-9 04')
})
