import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { namespaces, serviceCidrs } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'
import { kubeApiContract } from './kube-api-contract.ts'

kubeApiContract(test, async () => {
  const parts = { clock: systemClock, random: seededRandom(1, 'contract') }
  const transport = inProcessTransport(createApiServer(parts))
  const api = restKubeApi({ transport, ...parts })
  await api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/16'] } })
  await api.create(namespaces, { metadata: { name: 'contract' } })
  return { api, namespace: 'contract' }
})
