import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeEvent, Service, ServiceCidr } from '../../src/kube/resources.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'
import { throughout, untilPasses } from '../peers/until.ts'

const FINALIZER = 'networking.k8s.io/service-cidr-finalizer'
const collection = '/apis/networking.k8s.io/v1/servicecidrs'
const services = '/api/v1/namespaces/default/services'
const withinMs = 60_000

interface List<T> {
  readonly items: readonly T[]
}

type Controllers = 'kube-controller-manager' | 'apiserver-bootstrap'

async function startControllers(owner: Owner, server: { readonly kubeconfig: string }, which: Controllers) {
  if (which === 'kube-controller-manager') {
    await startControllerManager(owner, server, ['service-cidr-controller'])
    return
  }
  const program = await Program.start(owner, [
    'run',
    `--kubeconfig=${server.kubeconfig}`,
    '--controllers=service-cidr',
    '--endpoint-reconciler-type=none',
    '--leader-elect=false',
    '--health-bind-address=127.0.0.1:0',
  ])
  owner.explain(() => program.process.tail(50))
}

/** A ServiceCIDR without what differs from run to run: its identity and times. */
interface Seen {
  readonly name: string
  readonly cidrs: readonly string[]
  readonly finalizers: readonly string[]
  readonly deleting: boolean
  readonly conditions: readonly string[]
  /** The managers of fields of the status. */
  readonly owners: readonly string[]
}

function seen({ metadata, spec, status }: ServiceCidr): Seen {
  const managed = (metadata?.managedFields ?? []) as readonly {
    readonly manager: string
    readonly subresource?: string
  }[]
  return {
    name: metadata?.name ?? '',
    cidrs: spec?.cidrs ?? [],
    finalizers: metadata?.finalizers ?? [],
    deleting: metadata?.deletionTimestamp !== undefined,
    conditions: (status?.conditions ?? []).map(({ type, status, reason, message }) =>
      [type, status, reason, message].join('|'),
    ),
    owners: managed.filter(({ subresource }) => subresource === 'status').map(({ manager }) => manager),
  }
}

const ready = 'Ready|True||Kubernetes Service CIDR is ready'
const terminating =
  'Ready|False|Terminating|There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR'

/** A server with one of the controllers, and what was seen of its ServiceCIDRs. */
class Side {
  readonly history: (readonly [step: string, ...unknown[]])[] = []
  readonly #api: ApiClient

  constructor(api: ApiClient) {
    this.#api = api
  }

  create(name: string, cidrs: readonly string[], finalizers: readonly string[] = []): Promise<unknown> {
    return this.#api.create(collection, { metadata: { name, finalizers }, spec: { cidrs } })
  }

  delete(name: string): Promise<void> {
    return this.#api.delete(`${collection}/${name}`)
  }

  /** Waits for a state of a ServiceCIDR, then records all ServiceCIDRs. */
  async becomes(name: string, state: 'protected' | 'blocked' | 'held' | 'gone'): Promise<void> {
    const step = `${name} is ${state}`
    await untilPasses(step, async () => assertState(await this.#find(name), state), { withinMs })
    const { items } = await this.#api.get<List<ServiceCidr>>(collection)
    this.history.push([step, ...items.map(seen)])
  }

  /** Checks for a while that a ServiceCIDR stays in a state. */
  async stays(name: string, state: 'protected' | 'blocked' | 'there', forMs: number): Promise<void> {
    await throughout(forMs, async () => assertState(await this.#find(name), state), { everyMs: 250 })
  }

  /** Creates a Service with this address, as soon as the server's allocator has received its range. */
  async serve(name: string, clusterIP: string): Promise<void> {
    const body = { metadata: { name }, spec: { clusterIP, ports: [{ port: 80 }] } }
    await untilPasses(`${clusterIP} to be given`, () => this.#api.create<Service>(services, body), { withinMs })
  }

  async unserve(name: string): Promise<void> {
    await this.#api.delete(`${services}/${name}`)
  }

  async setFinalizers(name: string, finalizers: readonly string[]): Promise<void> {
    await this.#api.merge(`${collection}/${name}`, { metadata: { finalizers } })
  }

  /** From now on the server refuses the condition of ServiceCIDRs of this name. */
  async refuseStatusOf(name: string): Promise<void> {
    const group = '/apis/admissionregistration.k8s.io/v1'
    const rule = { apiGroups: ['networking.k8s.io'], apiVersions: ['v1'], resources: ['servicecidrs/status'] }
    await this.#api.create(`${group}/validatingadmissionpolicies`, {
      metadata: { name },
      spec: {
        matchConstraints: { resourceRules: [{ ...rule, operations: ['UPDATE'] }] },
        validations: [{ expression: `object.metadata.name != '${name}'` }],
      },
    })
    await this.#api.create(`${group}/validatingadmissionpolicybindings`, {
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    })
    // The controllers do not write the condition of this one, because it is being deleted. It shows when the policy is
    // in force.
    await this.create(name, ['192.168.7.0/24'], ['example.com/hold'])
    await this.delete(name)
    const status = { conditions: [{ type: 'Probe', status: 'True', reason: 'Probe', lastTransitionTime: null }] }
    await untilPasses(
      'the policy to be in force',
      async () => {
        const path = `${collection}/${name}/status?dryRun=All`
        const contentType = 'application/merge-patch+json'
        const answer = await this.#api.send('PATCH', path, { body: { status }, contentType })
        assert.match(JSON.stringify(answer.body), /denied request/)
      },
      { withinMs },
    )
    await this.setFinalizers(name, [])
    await this.becomes(name, 'gone')
  }

  /** Waits for an Event about a ServiceCIDR and records it. */
  async reports(name: string): Promise<void> {
    const path = '/apis/events.k8s.io/v1/namespaces/default/events'
    const about = async (): Promise<readonly KubeEvent[]> => {
      const { items } = await this.#api.get<List<KubeEvent>>(path)
      return items.filter(({ regarding }) => regarding?.kind === 'ServiceCIDR' && regarding.name === name)
    }
    const event = await untilPasses(
      `an Event about ${name}`,
      async () => {
        const [event] = await about()
        assert.ok(event)
        return event
      },
      { withinMs },
    )
    const { type, reason, note, reportingController } = event
    this.history.push([`an Event about ${name}`, { type, reason, note, reportingController }])
  }

  /** How often the ServiceCIDRs are changed in this time. */
  async changesWithin(ms: number): Promise<number> {
    const versions = new Set<string>()
    await throughout(
      ms,
      async () => {
        const { items } = await this.#api.get<List<ServiceCidr>>(collection)
        for (const { metadata } of items) versions.add(`${metadata?.name} ${metadata?.resourceVersion}`)
      },
      { everyMs: 250 },
    )
    const { items } = await this.#api.get<List<ServiceCidr>>(collection)
    return versions.size - items.length
  }

  #find(name: string): Promise<ServiceCidr | undefined> {
    return this.#api.find<ServiceCidr>(`${collection}/${name}`)
  }
}

function assertState(found: ServiceCidr | undefined, state: string): void {
  if (state === 'gone') {
    assert.equal(found, undefined)
    return
  }
  assert.ok(found, 'the ServiceCIDR is deleted')
  const { finalizers, deleting, conditions } = seen(found)
  switch (state) {
    case 'protected':
      assert.deepEqual([finalizers.includes(FINALIZER), deleting, conditions], [true, false, [ready]])
      return
    case 'blocked':
      assert.deepEqual([finalizers.includes(FINALIZER), deleting, conditions], [true, true, [terminating]])
      return
    case 'held':
      assert.deepEqual([finalizers, deleting, conditions], [['example.com/hold'], true, [ready]])
  }
}

/** Uses everything that the controller does, on an empty server. */
async function live(side: Side): Promise<void> {
  await side.becomes('kubernetes', 'protected')

  // Nobody uses it.
  await side.create('unused', ['192.168.1.0/24', 'fd00:1::/112'])
  await side.becomes('unused', 'protected')
  await side.delete('unused')
  // The grace period is ten seconds.
  await side.stays('unused', 'there', 5_000)
  await side.becomes('unused', 'gone')

  // A Service uses it.
  await side.create('used', ['192.168.2.0/24'])
  await side.becomes('used', 'protected')
  await side.serve('web', '192.168.2.10')
  await side.delete('used')
  await side.becomes('used', 'blocked')
  await side.stays('used', 'blocked', 15_000)
  await side.unserve('web')
  await side.becomes('used', 'gone')

  // Another one has the same addresses.
  await side.create('narrow', ['192.168.3.0/24'])
  await side.becomes('narrow', 'protected')
  await side.serve('web', '192.168.3.10')
  await side.delete('narrow')
  await side.becomes('narrow', 'blocked')
  await side.create('wide', ['192.168.0.0/20'])
  await side.becomes('narrow', 'gone')
  await side.becomes('wide', 'protected')
  await side.delete('wide')
  await side.becomes('wide', 'blocked')
  await side.unserve('web')
  await side.becomes('wide', 'gone')

  // Of two with the same addresses the first goes, the second stays.
  for (const name of ['first', 'second']) {
    await side.create(name, ['192.168.4.0/24'])
    await side.becomes(name, 'protected')
  }
  await side.serve('web', '192.168.4.10')
  await side.delete('first')
  await side.becomes('first', 'gone')
  await side.delete('second')
  await side.becomes('second', 'blocked')
  await side.unserve('web')
  await side.becomes('second', 'gone')

  // Somebody else has a finalizer too.
  await side.create('held', ['192.168.5.0/24'], ['example.com/hold'])
  await side.becomes('held', 'protected')
  await side.delete('held')
  await side.becomes('held', 'held')
  await side.setFinalizers('held', [])
  await side.becomes('held', 'gone')

  // Somebody removes the finalizer.
  await side.create('bare', ['192.168.6.0/24'])
  await side.becomes('bare', 'protected')
  await side.setFinalizers('bare', [])
  await side.becomes('bare', 'protected')

  await side.refuseStatusOf('refused')
  await side.create('refused', ['192.168.7.0/24'])
  await side.reports('refused')
}

test('ServiceCIDRs go through the same states as with the controller of kube-controller-manager', async (t) => {
  const owner = openOwner(t)
  const [theirs, ours] = await Promise.all(
    (['kube-controller-manager', 'apiserver-bootstrap'] as const).map(async (which) => {
      const { server } = await startCluster(owner, { kind: 'stock' })
      await startControllers(owner, server, which)
      const side = new Side(server.api)
      await live(side)
      return side
    }),
  )
  assert.ok((ours?.history.length ?? 0) > 20)
  assert.deepEqual(ours?.history, theirs?.history)
})

test('beside kube-controller-manager neither controller undoes the other, and a ServiceCIDR in use stays', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'stock' })
  for (const which of ['kube-controller-manager', 'apiserver-bootstrap'] as const) {
    await startControllers(owner, server, which)
  }
  const side = new Side(server.api)
  await side.becomes('kubernetes', 'protected')
  await side.create('more', ['192.168.1.0/24'])
  await side.becomes('more', 'protected')
  await side.serve('web', '192.168.1.10')
  assert.equal(await side.changesWithin(5_000), 0)
  await side.delete('more')
  await side.becomes('more', 'blocked')
  await side.stays('more', 'blocked', 15_000)
  assert.equal(await side.changesWithin(5_000), 0)
  await side.unserve('web')
  await side.becomes('more', 'gone')
})
