// Our keeper manages one Service, default/kubernetes, with one port: https, 443, with the port of the API server as its
// target. This Service takes the place of the Service of a case, and this port the place of its wanted port. If a case
// wants two ports, the first is left out, so the Service lacks its only one. Each case runs on the plan alone and on a
// server, except that one, because no server stores a Service without ports.
import { describe, test } from 'node:test'
import { type Service, services } from '../../src/kube/resources.ts'
import { type ObjectAction, ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { planService, SERVICE_PORT } from '../../src/kubernetes-service/service-plan.ts'
import { ServiceWriter } from '../../src/kubernetes-service/service-writer.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { relocated } from './relocated.ts'
import { assertSame } from './same.ts'
import { type KubernetesServiceCase, kubernetesService } from './tables.ts'
import { DEFAULT_NAMESPACE, World } from './world.ts'

const SECURE_PORT = 6443
const SERVICE_RANGE = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: { name: 'kubernetes' },
  spec: { cidrs: ['1.2.3.0/24'] },
}
const { signal } = new AbortController()

for (const [table, cases] of Object.entries(kubernetesService.tables)) {
  describe(`${kubernetesService.file}, ${table}`, () => {
    for (const original of cases) {
      test(original.name, async () => {
        const { given, call, expect } = withOurPort(
          relocated(original, { namespace: 'default', name: original.call.serviceName }),
        )
        const settings = { clusterIp: call.serviceIp, securePort: SECURE_PORT, nodePort: 0 }
        const current = given.objects[0] as Service | undefined
        assertSame(writesOf(planService(current, settings, call.reconcile)), expect.writes, 'the plan', 'allow')
        if (current?.spec?.ports?.length === 0) return

        const world = await World.start(given.objects, [DEFAULT_NAMESPACE, SERVICE_RANGE])
        const keeper = new ServiceWriter({
          api: world.api,
          logger: silentLogger,
          writer: new ObjectWriter({ api: world.api, metrics: prometheusMetrics() }),
          settings,
        })
        await keeper.reconcile(current, { portsAgreed: call.reconcile, stack: 'as-found' }, signal)
        await world.assertResult(expect, [services], 'allow')
      })
    }
  })
}

function writesOf(action: ObjectAction<Service>): readonly object[] {
  return action.type === 'none' ? [] : [{ verb: action.type, resource: 'services', object: action.object }]
}

function withOurPort(original: KubernetesServiceCase): KubernetesServiceCase {
  const wanted = original.call.servicePorts.at(-1)
  const leftOut = original.call.servicePorts.slice(0, -1).map((port) => port.name)
  const translations: Readonly<Record<string, readonly [from: unknown, to: unknown]>> = {
    name: [wanted?.name, 'https'],
    port: [wanted?.port, SERVICE_PORT],
    targetPort: [wanted?.targetPort, SECURE_PORT],
  }
  return JSON.parse(JSON.stringify(original), (key, value: unknown) => {
    if (key === 'ports') return (value as { readonly name: string }[]).filter((port) => !leftOut.includes(port.name))
    const translation = translations[key]
    return translation !== undefined && value === translation[0] ? translation[1] : value
  }) as KubernetesServiceCase
}
