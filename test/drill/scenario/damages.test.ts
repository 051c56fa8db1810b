import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { writeStaticList } from '../../../src/drill/listings.ts'
import { damages } from '../../../src/drill/scenario/scenario.ts'
import { endpoints } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'

test('the port of emptied Endpoints cannot be damaged', async () => {
  const options = { clock: systemClock, random: seededRandom(1, 'server') }
  const api = restKubeApi({ transport: inProcessTransport(createApiServer(options)), ...options })
  const portOf = async () => (await api.get(endpoints, KUBERNETES_SERVICE)).subsets?.[0]?.ports?.[0]?.port
  await writeStaticList(api, ['192.0.2.1'])
  await damages['endpoints-with-a-foreign-port'](api)
  assert.equal(await portOf(), 1)
  await damages['endpoints-emptied'](api)
  for (const name of ['endpoints-with-a-foreign-port', 'endpoints-with-a-foreign-protocol'] as const) {
    await assert.rejects(damages[name](api), { code: 'NotFound' })
  }
  assert.equal(await portOf(), undefined)
})
