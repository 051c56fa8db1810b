import { after, before, describe, test } from 'node:test'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import { namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { dualStackCases, dualStackRanges } from '../kube/contract/dual-stack-cases.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

describe('the contract of Services with two families, on a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let cluster: Cluster

  before(async () => {
    const range = `--service-cluster-ip-range=${dualStackRanges.join(',')}`
    cluster = await startCluster(owner, { kind: 'stock', flags: ['--endpoint-reconciler-type=none', range] })
    const { api } = cluster.server
    await untilPasses('the ServiceCIDR', () => api.get(paths.serviceCidr), { withinMs: 30_000 })
  })

  for (const [index, { name, run }] of dualStackCases.entries()) {
    test(name, async (t) => {
      const clock = systemClock
      const { config, access } = await loadKubeConfig({ kubeconfig: cluster.server.kubeconfig })
      const transport = fromKubeConfig(config, { access, clock, logger: silentLogger })
      t.after(() => transport.close())
      const api = restKubeApi({ transport, clock, random: systemRandom() })
      const namespace = `contract-${index + 1}`
      await api.create(namespaces, { metadata: { name: namespace } })
      await run({ api, namespace }, t)
    })
  }
})
