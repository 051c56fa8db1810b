import type { TestContext } from 'node:test'
import type { WorkloadControllerName } from '../../src/bootstrap/duties.ts'
import type { DutyTerm } from '../../src/bootstrap/duty-health.ts'
import type { PartPorts } from '../../src/bootstrap/kubernetes-service-parts.ts'
import { availabilityByServer } from '../../src/bootstrap/servers-availability.ts'
import { composeWorkloads } from '../../src/bootstrap/workload-parts.ts'
import { defineMaster, type MasterSettings } from '../../src/config/master-options.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import type { EventSink } from '../../src/kube/event-object.ts'
import { namespaces, nodes, pods, services } from '../../src/kube/resources.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { setUp } from './masters-world.ts'

/** An API server, and processes with controllers beside it. */
export async function serving(t: TestContext) {
  const world = setUp()
  const { time, api } = world
  for (const name of ['default', 'kube-system']) await api.create(namespaces, { metadata: { name } })

  const compose = (host: string, settings: Partial<MasterSettings>, more: Partial<PartPorts> = {}) => {
    const options = defineMaster({ advertiseAddress: '192.0.2.1', ...settings }, host)
    const { metrics = prometheusMetrics() } = more
    const { clock, logger } = world.ports
    const [server, etcd, own] = [1, 2, 3].map(() => new Availability({ clock, logger })) as [
      Availability,
      Availability,
      Availability,
    ]
    const servers = availabilityByServer({ api: server, etcd, own, leases: server })
    /** How many parts subscribe to the availability of the server. */
    let followers = 0
    const subscribe: PartPorts['availability']['subscribe'] = (handler) => {
      followers++
      const unsubscribe = servers.subscribe(handler)
      return () => {
        followers--
        unsubscribe()
      }
    }
    const availability = { ...servers, subscribe }
    const recorded = new Set<string | undefined>()
    const events: EventSink = { record: ({ reportingController }) => recorded.add(reportingController) }
    const ports: PartPorts = { ...world.ports, metrics, availability, events, ...more }
    const active = metrics.gauge({ name: 'active', help: 'Of the test.', labels: ['duty'] })
    /**
     * What was reported since the last call of `reported()`: terms that have `begun`, are `done`, or have `crashed`.
     */
    const reported: string[] = []
    const healthOf = (name: WorkloadControllerName) => ({
      begun(term: Pick<DutyTerm, 'settled'>) {
        reported.push(`${name} begun`)
        term.settled.then(
          () => reported.push(`${name} done`),
          () => {},
        )
      },
      crashed: (error: unknown) => reported.push(`${name} crashed: ${error instanceof Error ? error.message : error}`),
    })
    const workloads = composeWorkloads(options, ports, active, healthOf)
    const stop = new AbortController()
    let ended: Promise<void> | undefined
    const end = async (): Promise<void> => {
      stop.abort()
      await time.advance(30_000)
      await ended
    }
    t.after(end)
    return {
      workloads,
      availability,
      recorded,
      followers: () => followers,
      end,
      reported: () => reported.splice(0),
      async start(): Promise<void> {
        ended = workloads?.(stop.signal)
        await time.advance(2_000)
      },
      async active(): Promise<readonly string[]> {
        const lines = (await metrics.expose()).matchAll(/^active\{duty="([\w-]+)"\} 1$/gm)
        return [...lines].map(([, name]) => name ?? '')
      },
      async known(): Promise<number> {
        return [...(await metrics.expose()).matchAll(/^active\{duty="[\w-]+"\} [01]$/gm)].length
      },
    }
  }
  return { ...world, compose }
}

/** Sets whether a Pod of {@link createPods} is ready. */
export function readinessOf(api: KubeApi): (name: string, ready: boolean) => Promise<void> {
  return async (name, ready) => {
    const ip = `10.0.0.${name.slice(4)}`
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }]
    const body = { status: { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions } }
    await api.patch(pods, { namespace: 'default', name }, { type: 'merge', body }, { subresource: 'status' })
  }
}

/** Creates Pods with the names `pod-0` and so on, which are ready. */
export async function createPods(
  api: KubeApi,
  count: number,
  labelsOf: (index: number) => Readonly<Record<string, string>>,
): Promise<void> {
  await api.create(nodes, { metadata: { name: 'node' } })
  for (let index = 0; index < count; index++) {
    const metadata = { namespace: 'default', name: `pod-${index}`, labels: labelsOf(index) }
    await api.create(pods, { metadata, spec: { nodeName: 'node', containers: [{ name: 'c', image: 'i' }] } })
    await readinessOf(api)(`pod-${index}`, true)
  }
}

export async function createService(
  api: KubeApi,
  name: string,
  selector: Readonly<Record<string, string>> | undefined,
): Promise<void> {
  const spec = { clusterIP: 'None', ...(selector && { selector }), ports: [{ port: 80 }] }
  await api.create(services, { metadata: { namespace: 'default', name }, spec })
}
