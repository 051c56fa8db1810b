import assert from 'node:assert/strict'
import { Agent, request } from 'undici'
import type { EndpointSlice, Endpoints, IpAddress, Lease, Service, ServiceCidr } from '../../../src/kube/resources.ts'
import { paths, whenRight } from '../../peers/kubernetes-service.ts'
import type { Program } from '../../peers/program.ts'
import { nodePortSpec, ranges, type World } from './world.ts'

/** Something that happens, and what the program must do about it. */
export interface Step {
  readonly what: string
  act?(run: Run): Promise<unknown>
  /** Throws until the program has done it. */
  until(run: Run): Promise<unknown>
}

/** A life of the program, and what happens in it. It ends with SIGTERM. */
export interface Situation {
  readonly name: string
  /** @default bare */
  readonly kind?: 'bare' | 'bare-1.32'
  /** The part of config/kustomize that is applied in addition to config/kustomize/rbac. @default none */
  readonly part?: 'rbac-endpoints' | 'rbac-service-cidr'
  readonly address?: string
  readonly serviceClusterIpRange?: string
  flags?(world: World): readonly string[]
  /** Runs before the program starts. */
  before?(world: World): Promise<unknown>
  readonly steps: readonly Step[]
}

export interface Run {
  readonly world: World
  readonly program: Program
}

interface List<T> {
  readonly items: readonly T[]
}

const ledgers = '/api/v1/namespaces/kube-system/configmaps'
const web = '/api/v1/namespaces/web'
const webSlices = '/apis/discovery.k8s.io/v1/namespaces/web/endpointslices'
const ipAddresses = '/apis/networking.k8s.io/v1/ipaddresses'
const serviceCidrs = '/apis/networking.k8s.io/v1/servicecidrs'
const listed = (run: Run) =>
  whenRight(run.world.server.api, { addresses: ['192.0.2.1'], port: run.world.server.port }, 0)
const found = async (run: Run, path: string): Promise<void> => {
  assert.ok(await run.world.server.api.find(path), `no ${path}`)
}
const gone = async (run: Run, path: string): Promise<void> => {
  assert.equal(await run.world.server.api.find(path), undefined)
}
/** The leases of the masters and of the leader election. */
async function ownLeases({ world }: Run, namespace: string): Promise<readonly Lease[]> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
  const { items } = await world.server.api.get<List<Lease>>(path)
  return items.filter(({ metadata }) => metadata?.name?.startsWith('apiserver-bootstrap'))
}
const renewed = (namespace: string): Step => ({
  what: 'the lease is renewed',
  async until(run) {
    const [lease] = await ownLeases(run, namespace)
    assert.ok((lease?.spec?.renewTime ?? '') > (lease?.spec?.acquireTime ?? ''))
  },
})
const withdrawn = (namespace: string): Step => ({
  what: 'a stopped master deletes its lease',
  act: ({ program }) => program.stop(),
  async until(run) {
    assert.equal((await ownLeases(run, namespace)).length, 0)
  },
})
const slicePath = (family: number): string => `${paths.slices}/kubernetes-ipv${family}`
const ownSlice = (name: string, addressType: 'IPv4' | 'IPv6') => ({
  metadata: { name, labels: { 'kubernetes.io/service-name': 'kubernetes' } },
  addressType,
  endpoints: [],
  ports: [],
})
const labelled = (path: string) => async (run: Run) => {
  const slice = await run.world.server.api.get<EndpointSlice>(path)
  assert.ok(slice.metadata?.labels?.['kubernetes.io/service-name'])
}
const short = ['--lease-ttl=3s', '--reconcile-interval=1s', '--on-shutdown=always', '--log-level=debug']
const alone = '--controllers=kubernetes-service,default-service-cidr'
const spoilLabels = (path: string) => (run: Run) => run.world.server.api.merge(path, { metadata: { labels: null } })

const addressOf = async ({ world }: Run, service: string): Promise<string> => {
  const { spec } = await world.server.api.get<Service>(`${paths.services}/${service}`)
  return `${ipAddresses}/${spec?.clusterIP}`
}

const readyServiceCidr: Step = {
  what: 'the default ServiceCIDR',
  async until({ world }) {
    const { status } = await world.server.api.get<ServiceCidr>(paths.serviceCidr)
    assert.equal(status?.conditions?.[0]?.status, 'True')
  },
}

/**
 * One master, beginning with an empty store, and all changes that another client may make to the objects that it
 * manages.
 */
const bootstrap: Situation = {
  name: 'a master on an empty server',
  flags: () => short,
  steps: [
    { what: 'default/kubernetes', until: listed },
    { what: 'the system namespaces', until: (run) => found(run, `${paths.namespaces}/kube-node-lease`) },
    readyServiceCidr,
    renewed('kube-system'),
    { what: 'a slice without labels', act: spoilLabels(paths.slice), until: listed },
    {
      what: 'an Event that is recorded again',
      act: spoilLabels(paths.slice),
      async until({ world }) {
        const path = '/apis/events.k8s.io/v1/namespaces/default/events'
        const { items } = await world.server.api.get<List<{ series?: { count: number } }>>(path)
        assert.ok(items.some(({ series }) => (series?.count ?? 0) > 1))
      },
    },
    {
      what: 'a slice of another address family',
      async act({ world: { server } }) {
        await server.api.delete(paths.slice)
        await server.api.send('POST', paths.slices, { body: ownSlice('kubernetes', 'IPv6') })
      },
      until: listed,
    },
    {
      what: 'Endpoints without labels',
      act: spoilLabels(paths.endpoints),
      until: listed,
    },
    {
      what: 'another port of the Service',
      act: ({ world }) =>
        world.server.api.merge(paths.service, { spec: { ports: [{ name: 'https', port: 8443, protocol: 'TCP' }] } }),
      until: listed,
    },
    {
      what: 'slices of a second family without masters',
      async act({ world: { server } }) {
        await server.api.create(paths.slices, ownSlice('kubernetes-ipv4', 'IPv4'))
        await server.api.create(paths.slices, ownSlice('kubernetes-ipv6', 'IPv6'))
      },
      async until(run) {
        await gone(run, slicePath(4))
        await gone(run, slicePath(6))
      },
    },
    withdrawn('kube-system'),
  ],
}

const clusterIps: Situation = {
  name: 'a master that repairs ClusterIPs',
  flags: () => [...short, '--controllers=auto,-kubernetes-service'],
  steps: [
    readyServiceCidr,
    {
      what: 'a Service that loses its IPAddress',
      async act(run) {
        const { api } = run.world.server
        await api.create(paths.services, { metadata: { name: 'web' }, spec: { ports: [{ port: 80 }] } })
        await api.delete(await addressOf(run, 'web'))
      },
      until: async (run) => found(run, await addressOf(run, 'web')),
    },
    {
      what: 'an IPAddress without labels',
      act: async (run) => spoilLabels(await addressOf(run, 'web'))(run),
      async until(run) {
        const { metadata } = await run.world.server.api.get<IpAddress>(await addressOf(run, 'web'))
        assert.ok(metadata?.labels)
      },
    },
    {
      what: 'an IPAddress of another Service',
      async act(run) {
        const { api } = run.world.server
        const path = await addressOf(run, 'web')
        const { metadata, spec } = await api.get<IpAddress>(path)
        await api.delete(path)
        const parentRef = { ...spec?.parentRef, name: 'other' }
        const { name, labels } = metadata ?? {}
        await api.send('POST', ipAddresses, { body: { metadata: { name, labels }, spec: { parentRef } } })
      },
      async until(run) {
        const { spec } = await run.world.server.api.get<IpAddress>(await addressOf(run, 'web'))
        assert.equal(spec?.parentRef?.name, 'web')
      },
    },
  ],
}

function dualStack(first: 4 | 6): Situation {
  const second = first === 4 ? 6 : 4
  const inOrder = (...families: readonly [string, string]): string =>
    (first === 4 ? families : families.toReversed()).join()
  const [four = '', six = ''] = ranges.split(',')
  return {
    name: `a master with two addresses, IPv${first} first`,
    address: inOrder('192.0.2.1', '2001:db8::1'),
    serviceClusterIpRange: inOrder(four, six),
    flags: () => [...short, alone],
    before: ({ server }) =>
      server.api.create('/apis/networking.k8s.io/v1/servicecidrs', {
        metadata: { name: 'kubernetes' },
        spec: { cidrs: [first === 4 ? four : six] },
      }),
    steps: [
      { what: 'the second slice', until: (run) => found(run, slicePath(second)) },
      {
        what: 'the ServiceCIDR of both families',
        async until({ world }) {
          const { spec } = await world.server.api.get<ServiceCidr>(paths.serviceCidr)
          assert.equal(spec?.cidrs?.length, 2)
        },
      },
      {
        what: 'a second slice without labels',
        act: spoilLabels(slicePath(second)),
        until: labelled(slicePath(second)),
      },
    ],
  }
}

const ledger: Situation = {
  name: 'a master with ledgers in ConfigMaps',
  // A server that has IPAddresses needs no bitmaps of ClusterIPs.
  kind: 'bare-1.32',
  serviceClusterIpRange: ranges,
  flags: () => [...short, '--range-registry=configmap', '--controllers=auto,-kubernetes-service'],
  steps: [
    {
      what: 'the ledgers',
      async until(run) {
        for (const range of ['serviceips', 'secondaryserviceips', 'servicenodeports']) {
          await found(run, `${ledgers}/apiserver-bootstrap-${range}`)
        }
      },
    },
    {
      what: 'a Service with two addresses and a NodePort',
      act: ({ world }) => world.server.api.create(paths.services, { metadata: { name: 'ports' }, spec: nodePortSpec }),
      async until({ world }) {
        for (const range of ['serviceips', 'secondaryserviceips', 'servicenodeports']) {
          const { binaryData } = await world.server.api.get<{ binaryData?: { data?: string } }>(
            `${ledgers}/apiserver-bootstrap-${range}`,
          )
          assert.ok(Buffer.from(binaryData?.data ?? '', 'base64').some((byte) => byte !== 0))
        }
      },
    },
  ],
}

const endpoints: Situation = {
  name: 'the controllers of Endpoints and EndpointSlices',
  part: 'rbac-endpoints',
  before: async ({ server: { api } }) => {
    await api.send('POST', paths.namespaces, { body: { metadata: { name: 'web' } } })
    await api.send('POST', '/api/v1/nodes', { body: { metadata: { name: 'node' } } })
  },
  flags: () => [...short, '--controllers=default-service-cidr,endpoints,endpointslice,endpointslice-mirroring'],
  steps: [
    {
      what: 'a Service with a selector and one without',
      async act({ world: { server } }) {
        const spec = { clusterIP: 'None', ports: [{ port: 80 }] }
        await server.api.create(`${web}/services`, {
          metadata: { name: 'web' },
          spec: { ...spec, selector: { app: 'web' } },
        })
        await server.api.create(`${web}/services`, { metadata: { name: 'hand' }, spec })
        const subsets = [{ addresses: [{ ip: '192.0.2.7' }], ports: [{ port: 80 }] }]
        await server.api.create(`${web}/endpoints`, { metadata: { name: 'hand' }, subsets })
      },
      async until(run) {
        await found(run, `${web}/endpoints/web`)
        const { items } = await run.world.server.api.get<List<EndpointSlice>>(webSlices)
        const names = items.map(({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'])
        assert.deepEqual(names.toSorted(), ['hand', 'web'])
      },
    },
    {
      what: 'a Pod',
      async act({ world: { server } }) {
        const pods = `${web}/pods`
        const spec = { nodeName: 'node', containers: [{ name: 'web', image: 'web' }] }
        await server.api.create(pods, { metadata: { name: 'web', labels: { app: 'web' } }, spec })
        const conditions = [{ type: 'Ready', status: 'True' }]
        await server.api.merge(`${pods}/web/status`, {
          status: { phase: 'Running', podIP: '192.0.2.8', podIPs: [{ ip: '192.0.2.8' }], conditions },
        })
      },
      async until({ world: { server } }) {
        const { subsets } = await server.api.get<Endpoints>(`${web}/endpoints/web`)
        assert.equal(subsets?.[0]?.addresses?.[0]?.ip, '192.0.2.8')
        const { items } = await server.api.get<List<EndpointSlice>>(webSlices)
        assert.ok(items.some((slice) => slice.endpoints?.some((endpoint) => endpoint.addresses[0] === '192.0.2.8')))
      },
    },
    {
      what: 'Endpoints and a Service that are deleted',
      async act({ world: { server } }) {
        await server.api.delete(`${web}/endpoints/hand`)
        await server.api.delete(`${web}/services/web`)
      },
      async until(run) {
        await gone(run, `${web}/endpoints/web`)
        const { items } = await run.world.server.api.get<List<EndpointSlice>>(webSlices)
        assert.ok(!items.some(({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === 'hand'))
      },
    },
    renewed('kube-system'),
  ],
}

const serviceCidr: Situation = {
  name: 'the controller of ServiceCIDRs',
  part: 'rbac-service-cidr',
  flags: () => [...short, '--controllers=service-cidr'],
  steps: [
    {
      what: 'a ServiceCIDR',
      act: ({ world }) =>
        world.server.api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['192.168.1.0/24'] } }),
      async until({ world }) {
        const { metadata, status } = await world.server.api.get<ServiceCidr>(`${serviceCidrs}/more`)
        assert.equal(metadata?.finalizers?.length, 1)
        assert.equal(status?.conditions?.[0]?.status, 'True')
      },
    },
    {
      what: 'a ServiceCIDR that is deleted',
      act: ({ world }) => world.server.api.delete(`${serviceCidrs}/more`),
      until: (run) => gone(run, `${serviceCidrs}/more`),
    },
  ],
}

const reviews: Situation = {
  name: 'a request to the health address',
  flags: ({ healthFlags }) => [...short, alone, ...healthFlags, '--authentication-token-webhook'],
  steps: [
    {
      what: 'an unauthorized request is refused',
      async until({ world, program }) {
        const [line] = program.logged(/"health":"/)
        const agent = new Agent({ connect: { rejectUnauthorized: false } })
        const headers = { authorization: `Bearer ${world.server.unprivilegedToken}` }
        try {
          const { statusCode, body } = await request(`https://${line?.health}/metrics`, { dispatcher: agent, headers })
          await body.dump()
          assert.equal(statusCode, 403)
        } finally {
          await agent.close()
        }
      },
    },
  ],
}

const leaseNamespace: Situation = {
  name: 'a master with leases in a namespace of their own',
  flags: () => [...short, alone, '--lease-namespace=apiserver-bootstrap'],
  steps: [
    { what: 'default/kubernetes', until: listed },
    renewed('apiserver-bootstrap'),
    withdrawn('apiserver-bootstrap'),
  ],
}

export const situations: readonly Situation[] = [
  bootstrap,
  clusterIps,
  dualStack(4),
  dualStack(6),
  ledger,
  endpoints,
  serviceCidr,
  reviews,
  leaseNamespace,
]
