import type { Endpoints, Pod, Service } from '../../src/kube/resources.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'

/** One of several. */
export function oneOf<T>(random: Random, of: readonly T[]): T {
  return of[randomInteger(random, of.length)] as T
}

export const zones = ['zone-a', 'zone-b', 'zone-c'] as const
const apps = ['web', 'shop', 'mail'] as const
const tiers = ['front', 'back'] as const
const everyPod = { in: 'crowd' }

type ServiceSpec = NonNullable<Service['spec']>

const portForms: readonly (ServiceSpec['ports'] & object)[] = [
  [{ port: 80, targetPort: 8080 }],
  [{ name: 'http', port: 80, targetPort: 'http' }],
  [
    { name: 'http', port: 80, targetPort: 'http' },
    { name: 'metrics', port: 9090, targetPort: 9091, appProtocol: 'example.com/metrics' },
  ],
  [
    { name: 'dns', port: 53, protocol: 'UDP', targetPort: 'dns' },
    { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 'dns' },
  ],
]

export function podLabels(random: Random): Readonly<Record<string, string>> {
  return { app: oneOf(random, apps), tier: oneOf(random, tiers), ...everyPod }
}

export function selectorOf(random: Random): Readonly<Record<string, string>> {
  const { app = '', tier = '' } = podLabels(random)
  return oneOf(random, [{ app }, { app }, { tier }, { app, tier }, everyPod])
}

export function serviceLabels(random: Random): Readonly<Record<string, string>> {
  return oneOf(random, [{}, { team: 'one' }, { team: 'two', color: 'red' }])
}

export function portsOf(random: Random): ServiceSpec['ports'] & object {
  return oneOf(random, portForms)
}

export function trafficDistributionOf(random: Random): string | undefined {
  return oneOf(random, [undefined, undefined, 'PreferClose', 'PreferSameZone', 'PreferSameNode'])
}

/** A random Service; most select Pods. */
export function newService(name: string, namespace: string, random: Random, isDualStack: boolean): Service {
  const isSelecting = random.next() < 0.85
  // A headless Service without a selector has both families in every cluster, and could not get a selector later.
  const isHeadless = isSelecting && random.next() < 0.3
  const traffic = trafficDistributionOf(random)
  const ports = isHeadless && random.next() < 0.3 ? undefined : portsOf(random)
  const policy = isDualStack ? oneOf(random, ['SingleStack', 'PreferDualStack']) : undefined
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, labels: serviceLabels(random) },
    spec: {
      ...(isSelecting ? { selector: selectorOf(random) } : {}),
      ...(isHeadless ? { clusterIP: 'None' } : {}),
      ...(ports === undefined ? {} : { ports }),
      ...(random.next() < 0.25 ? { publishNotReadyAddresses: true } : {}),
      ...(traffic === undefined ? {} : { trafficDistribution: traffic }),
      ...(policy === undefined ? {} : { ipFamilyPolicy: policy }),
    },
  }
}

/** Endpoints as a user writes them by hand, in both families. */
export function newEndpoints(name: string, namespace: string, random: Random): Endpoints {
  const labels = oneOf(random, [{}, { team: 'one' }, { 'endpointslice.kubernetes.io/skip-mirror': 'true' }])
  const annotations = oneOf(random, [{}, { note: 'by hand' }])
  const address = (index: number): { readonly ip: string } =>
    oneOf(random, [{ ip: `192.0.2.${index}` }, { ip: `2001:db8::${index}` }])
  const subset = (from: number, port: number): NonNullable<Endpoints['subsets']>[number] => ({
    addresses: [address(from), address(from + 1)],
    ...(random.next() < 0.5 ? { notReadyAddresses: [address(from + 2)] } : {}),
    ports: [{ name: `port-${port}`, port, protocol: 'TCP' }],
  })
  const first = subset(1, oneOf(random, [8080, 8443]))
  const subsets = oneOf(random, [[], [first], [first, subset(11, 9090)]])
  return { apiVersion: 'v1', kind: 'Endpoints', metadata: { name, namespace, labels, annotations }, subsets }
}

/** A Pod that is assigned to a Node and has not started. */
export function newPod(
  of: {
    readonly name: string
    readonly namespace: string
    readonly node: string
    readonly services: readonly string[]
  },
  random: Random,
): Pod {
  const http = oneOf(random, [8080, 8080, 8081, undefined])
  const ports = [
    ...(http === undefined ? [] : [{ name: 'http', containerPort: http, protocol: 'TCP' }]),
    ...(random.next() < 0.5 ? [{ name: 'dns', containerPort: 5353, protocol: 'UDP' }] : []),
  ]
  const hasHostname = random.next() < 0.2
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: of.name, namespace: of.namespace, labels: podLabels(random) },
    spec: {
      nodeName: of.node,
      ...(hasHostname ? { hostname: `${of.name}-host`, subdomain: oneOf(random, of.services) } : {}),
      containers: [{ name: 'main', image: 'registry.example/main:1', ...(ports.length === 0 ? {} : { ports }) }],
    },
  }
}
