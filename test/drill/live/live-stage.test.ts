import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import type { Cluster } from '../../../src/drill/live/cluster.ts'
import { ClusterStage } from '../../../src/drill/live/live-stage.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'

const { signal } = new AbortController()

test('the end of a drill removes the leases at every drilled address, former ones too, and no others', async () => {
  const addresses = ['192.0.2.7', '192.0.2.8', '2001:db8::9', '198.18.1.1', '198.18.1.2', '10.0.0.1', undefined]
  const evicted: (string | undefined)[] = []
  let found: readonly object[] = []
  const options = { clock: systemClock, random: seededRandom(1, 'server') }
  const cluster = {
    api: restKubeApi({ transport: inProcessTransport(createApiServer(options)), ...options }),
    leaseStore: 'kubernetes',
    leases: {
      inspect: async () => found,
      evict: async ({ address }: { readonly address: string | undefined }) => evicted.push(address),
    },
    readyz: async () => ({ status: 200, text: '' }),
    close: async () => {},
  } as unknown as Cluster
  const stage = new ClusterStage(
    {
      kubeconfig: '',
      etcdPrefix: '',
      etcdFiles: {},
      program: [],
      serviceClusterIpRange: '10.96.0.0/12',
      log: () => {},
    },
    cluster,
  )
  await stage.open(signal)
  found = addresses.map((address) => ({ address }))
  await stage.close(['192.0.2.8', '198.18.1.1'])
  assert.deepEqual(evicted, ['192.0.2.7', '192.0.2.8', '2001:db8::9', '198.18.1.1'])
})
