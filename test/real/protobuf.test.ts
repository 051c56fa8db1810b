import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { WatchEvent } from '../../src/kube/api.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import {
  ipAddresses,
  type KubeObject,
  namespaces,
  nodes,
  pods,
  type Resource,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { identityOfIpAddress, trimIpAddress } from '../../src/repair/ip-address/ip-address.ts'
import { trimService as trimServiceForRepair } from '../../src/repair/service-claims.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { trimNode, trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import type { Etcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'

const read = {
  Pods: [pods, trimPod],
  Nodes: [nodes, trimNode],
  'Services for the controllers': [services, trimService],
  'Services for the repairs': [services, trimServiceForRepair],
  'IPAddresses for the repair': [ipAddresses, trimIpAddress],
  'IPAddresses for the controller of ServiceCIDRs': [ipAddresses, identityOfIpAddress],
} as const
const count = 30

for (const kind of ['stock', 'bare-1.32'] as const) {
  describe(`protobuf of a real ${kind} API server`, () => {
    const owner = openOwner({ after })
    const types: (string | undefined)[] = []
    let api: ReturnType<typeof restKubeApi>

    let etcd: Etcd

    async function client(server: Apiserver): Promise<ReturnType<typeof restKubeApi>> {
      const { config, access } = await loadKubeConfig({ kubeconfig: server.kubeconfig })
      const inner = fromKubeConfig(config, { access, clock: systemClock, logger: silentLogger })
      owner.after(() => inner.close())
      const transport: Transport = {
        async send(request, signal) {
          const response = await inner.send(request, signal)
          if (request.protobuf !== undefined) types.push(response.headers['content-type'])
          return response
        },
        close: () => inner.close(),
      }
      return restKubeApi({ transport, clock: systemClock, random: systemRandom() })
    }

    before(async () => {
      const cluster = await startCluster(owner, { kind })
      etcd = cluster.etcd
      api = await client(cluster.server)
      await api.create(namespaces, { metadata: { name: 'made' } })
      for (let index = 0; index < count; index++) await createEach(index)
    })

    async function createEach(index: number): Promise<void> {
      const metadata = { name: `n-${index}`, namespace: 'made', labels: { app: `a-${index}` } }
      const containers = [{ name: 'c', image: 'i', ports: [{ name: 'web', containerPort: 80 + index }] }]
      await api.create(pods, { metadata, spec: { containers, nodeName: `node-${index}` } } as never)
      // The other server allocates no ClusterIP before it is bootstrapped.
      const address = kind === 'stock' ? { type: 'NodePort' } : { clusterIP: 'None' }
      const spec = { ...address, selector: { app: 'x' }, ports: [{ port: 80, targetPort: 'web' }] }
      await api.create(services, { metadata, spec } as never)
      await api.create(nodes, { metadata: { name: `node-${index}`, labels: metadata.labels } } as never)
    }

    async function initial(
      resource: Resource<KubeObject>,
      protobuf: object | undefined,
    ): Promise<WatchEvent<KubeObject>[]> {
      const events: WatchEvent<KubeObject>[] = []
      const end = new AbortController()
      const query = {
        sendInitialEvents: true,
        allowWatchBookmarks: true,
        resourceVersionMatch: 'NotOlderThan',
      } as const
      for await (const event of api.watch(resource, { ...query, signal: end.signal, protobuf: protobuf as never })) {
        events.push(event)
        if (event.type === 'BOOKMARK') break
      }
      return events
    }

    for (const [what, [resource, trim]] of Object.entries(read)) {
      // 1.32 has no IPAddresses in v1.
      if (resource === ipAddresses && kind === 'bare-1.32') continue
      test(`${what} are the same in protobuf as in JSON: in a list, in pages and in a stream of initial events`, async () => {
        types.length = 0
        const asKubeObject = resource as unknown as Resource<KubeObject>
        // Items of a list have no kind, objects of a stream have one. Only the fields that the trimmed copies have are
        // compared.
        const trimmed = (objects: readonly KubeObject[]): readonly object[] =>
          objects.map((object) => ({ ...trim(object as never), apiVersion: undefined, kind: undefined }))
        const { items: listed } = await api.list(asKubeObject)
        const inJson = trimmed(listed)
        assert.ok(inJson.length >= count)
        const { protobuf } = trim
        assert.deepEqual(trimmed((await api.list(asKubeObject, { protobuf })).items), inJson)
        const first = await api.list(asKubeObject, { protobuf, limit: 7 })
        const second = await api.list(asKubeObject, { protobuf, limit: 1000, continue: first.metadata.continue })
        assert.deepEqual(trimmed([...first.items, ...second.items]), inJson)
        assert.deepEqual(new Set(types), new Set(['application/vnd.kubernetes.protobuf']))
        const events = await initial(asKubeObject, protobuf)
        const bookmark = events.pop()
        assert.ok(bookmark?.type === 'BOOKMARK')
        assert.equal(bookmark.object.metadata?.annotations?.['k8s.io/initial-events-end'], 'true')
        const byName = (a: KubeObject, b: KubeObject) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1)
        const streamed = events.map(({ object }) => object as KubeObject)
        assert.deepEqual(trimmed(streamed.sort(byName)), trimmed(listed.toSorted(byName)))
        assert.equal(types.at(-1), 'application/vnd.kubernetes.protobuf;stream=watch')
      })
    }

    test('a protobuf watch from an old resourceVersion gets 410, and a refused list has the message of the server', async () => {
      // Its watch cache begins after the objects were made.
      const later = await client(await startApiserver(owner, { kind, etcd }))
      const query = { resourceVersion: '1', signal: AbortSignal.timeout(20_000), protobuf: trimService.protobuf }
      const first = await later.watch(services, query)[Symbol.asyncIterator]().next()
      assert.ok(!first.done && first.value.type === 'ERROR', JSON.stringify(first))
      assert.equal(first.value.object.code, 410)
      assert.match(first.value.object.message ?? '', /too old resource version/)
      assert.equal(types.at(-1), 'application/vnd.kubernetes.protobuf;stream=watch')
      await assert.rejects(
        api.list(services, { protobuf: trimService.protobuf, labelSelector: '=' }),
        (error) => isKubeError(error, 'BadRequest') && /found '=', expected/.test(error.message),
      )
    })
  })
}
