import { after, before, describe, test } from 'node:test'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import { namespaces, serviceCidrs } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { kubeApiContract } from '../kube/contract/kube-api-contract.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

describe('the contract of KubeApi, on a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  let targets = 0

  before(async () => {
    cluster = await startCluster(owner, { kind: 'stock', flags: ['--endpoint-reconciler-type=none'] })
    const { api } = cluster.server
    await untilPasses(
      'the ServiceCIDR',
      () => api.get(`/apis/networking.k8s.io/v1/${serviceCidrs.plural}/kubernetes`),
      {
        withinMs: 30_000,
      },
    )
  })

  kubeApiContract(test, async (t) => {
    const clock = systemClock
    const { config, access } = await loadKubeConfig({ kubeconfig: cluster.server.kubeconfig })
    const transport = fromKubeConfig(config, { access, clock, logger: silentLogger })
    t.after(() => transport.close())
    const api = restKubeApi({ transport, clock, random: systemRandom() })
    targets++
    const namespace = `contract-${targets}`
    await api.create(namespaces, { metadata: { name: namespace } })
    return { api, namespace }
  })
})
