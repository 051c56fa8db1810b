import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startApiServer } from '../../src/testing.ts'
import { acceptedDifferences } from '../conformance/accepted-differences.ts'
import { differences, normalised } from '../conformance/normalise.ts'
import { bootstrapped, type Scenario } from '../conformance/scenario.ts'
import { applyScenarios } from '../conformance/scenarios/apply.ts'
import { customResourceScenarios } from '../conformance/scenarios/custom-resources.ts'
import { discoveryScenarios } from '../conformance/scenarios/discovery.ts'
import { kindScenarios } from '../conformance/scenarios/kinds.ts'
import { patchScenarios } from '../conformance/scenarios/patches.ts'
import { readScenarios } from '../conformance/scenarios/reads.ts'
import { serviceScenarios } from '../conformance/scenarios/services.ts'
import { watchScenarios } from '../conformance/scenarios/watches.ts'
import { writeScenarios } from '../conformance/scenarios/writes.ts'
import { ConformanceClient } from '../conformance/servers.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

const scenarios: readonly Scenario[] = [
  ...discoveryScenarios,
  ...readScenarios,
  ...writeScenarios,
  ...patchScenarios,
  ...applyScenarios,
  ...watchScenarios,
  ...kindScenarios,
  ...serviceScenarios,
  ...customResourceScenarios,
]

describe('the embedded API server answers like a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let real: ConformanceClient
  let embedded: ConformanceClient
  const met = new Set<object>()

  before(async () => {
    const { server } = await startCluster(owner, { kind: 'stock' })
    await untilPasses(
      'the IPAddress of default/kubernetes',
      () => server.api.get('/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1'),
      { withinMs: 30_000 },
    )
    const { url, authority, token } = server
    real = new ConformanceClient({ url, ca: authority.certificate, token })
    const started = await startApiServer({ objects: bootstrapped })
    embedded = new ConformanceClient({ url: started.url, ca: started.certificate, token: started.token })
    owner.after(() => started.close())
    owner.after(() => real.close())
    owner.after(() => embedded.close())
  })

  for (const [index, { name, steps }] of scenarios.entries()) {
    test(name, async (t) => {
      const namespace = `conformance-${index}`
      const creation = {
        method: 'POST',
        path: '/api/v1/namespaces',
        body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
      } as const
      const found: string[] = []
      for (const step of [creation, ...steps]) {
        const [expected, actual] = await Promise.all([real.send(step, namespace), embedded.send(step, namespace)])
        for (const difference of differences(normalised(expected), normalised(actual))) {
          const where = `${step.method} ${step.path}${difference}`
          const accepted = acceptedDifferences.filter((one) => one.where.test(where))
          if (accepted.length === 0) found.push(where)
          for (const one of accepted) met.add(one)
        }
      }
      t.diagnostic(`${steps.length} requests`)
      assert.deepEqual(found, [])
    })
  }

  test('every accepted difference still exists', () => {
    assert.deepEqual(
      acceptedDifferences.filter((one) => !met.has(one)).map(({ where }) => where),
      [],
    )
  })
})
