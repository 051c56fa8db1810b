import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { namespaces, serviceCidrs } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'
import { dualStackCases, dualStackRanges } from './dual-stack-cases.ts'

for (const { name, run } of dualStackCases) {
  test(name, async (t) => {
    const parts = { clock: systemClock, random: seededRandom(1, 'contract') }
    const api = restKubeApi({ transport: inProcessTransport(createApiServer(parts)), ...parts })
    await api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: dualStackRanges } })
    await api.create(namespaces, { metadata: { name: 'contract' } })
    await run({ api, namespace: 'contract' }, t)
  })
}
