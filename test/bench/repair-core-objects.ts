import { serviceRange } from '../peers/apiserver.ts'
import type { CollectionAtRest } from './repair-core-api.ts'

/** The range of NodePorts. It is wide, so that every second of 100,000 Services can have one. */
export const widePortRange = '10000-65535'

const created = '2026-01-01T00:00:00Z'
const managers = (f: object): readonly object[] => [
  { manager: 'bench', operation: 'Update', apiVersion: 'v1', time: created, fieldsType: 'FieldsV1', fieldsV1: f },
]

/** Services as a server sends them, every second with a NodePort; and their IPAddresses and the ServiceCIDR. */
export function allRight(count: number): Readonly<Record<string, CollectionAtRest>> {
  return {
    services: { count, json: (index) => JSON.stringify(serviceAt(index)) },
    ipaddresses: { count, json: (index) => JSON.stringify(ipAddressAt(index)) },
    servicecidrs: { count: 1, json: () => JSON.stringify(serviceCidr) },
  }
}

/** A Service of {@link allRight} after its `times`th change, which concerns no allocation. */
export function changedService(index: number, times: number): string {
  const service = serviceAt(index)
  return JSON.stringify({ ...service, metadata: { ...service.metadata, resourceVersion: String(2_000_000 + times) } })
}

export function addressAt(index: number): string {
  // The first two addresses of the range are its network's and that of default/kubernetes.
  const number = index + 2
  return `10.${96 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`
}

export function nodePortAt(index: number): number | undefined {
  return index % 2 === 0 && index < 100_000 ? 10_000 + index / 2 : undefined
}

const serviceCidr = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: { name: 'kubernetes', uid: uidOf(0, 'c1d2'), resourceVersion: '7', creationTimestamp: created },
  spec: { cidrs: [serviceRange] },
  status: { conditions: [{ type: 'Ready', status: 'True', reason: '', message: '', lastTransitionTime: created }] },
}

function serviceAt(index: number) {
  const address = addressAt(index)
  const nodePort = nodePortAt(index)
  const labels = { 'app.kubernetes.io/name': `app-${index % 500}`, 'app.kubernetes.io/part-of': 'bench' }
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: `service-${index}`,
      namespace: namespaceAt(index),
      uid: uidOf(index, 'a5e7'),
      resourceVersion: String(100_000 + index),
      creationTimestamp: created,
      labels,
      managedFields: managers({ 'f:metadata': { 'f:labels': { '.': {} } }, 'f:spec': { 'f:ports': {}, 'f:type': {} } }),
    },
    spec: {
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, ...(nodePort !== undefined && { nodePort }) },
      ],
      selector: labels,
      clusterIP: address,
      clusterIPs: [address],
      type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  }
}

function ipAddressAt(index: number): object {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'IPAddress',
    metadata: {
      name: addressAt(index),
      uid: uidOf(index, 'b1a9'),
      resourceVersion: String(300_000 + index),
      creationTimestamp: created,
      labels: {
        'ipaddress.kubernetes.io/ip-family': 'IPv4',
        'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
      },
      managedFields: managers({ 'f:metadata': { 'f:labels': { '.': {} } }, 'f:spec': { 'f:parentRef': {} } }),
    },
    spec: { parentRef: { group: '', resource: 'services', namespace: namespaceAt(index), name: `service-${index}` } },
  }
}

/** Servers list one namespace after the other. */
function namespaceAt(index: number): string {
  return `team-${Math.floor(index / 5000)}`
}

function uidOf(index: number, mark: string): string {
  return `7a356fdd-af26-4c77-${mark}-${String(index).padStart(12, '0')}`
}
