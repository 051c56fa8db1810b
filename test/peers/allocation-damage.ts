import type { IpAddress } from '../../src/kube/resources.ts'
import { type AllocationsOf, allocationPaths, ipAddressLabels, ipAddressPrefix } from './allocations.ts'
import type { Etcd } from './etcd.ts'
import { removeValues, storedValues, storeValue } from './stored-values.ts'

/** Stores a Service that no API server would accept: with a ClusterIP or NodePort that is not allocated to it. */
export async function storeService(etcd: Etcd, name: string, spec: Readonly<Record<string, unknown>>): Promise<void> {
  const stored = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default', uid: crypto.randomUUID(), creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      type: 'ClusterIP',
      ports: [{ port: 80, targetPort: 80, protocol: 'TCP' }],
      sessionAffinity: 'None',
      ...spec,
    },
  }
  await storeValue(etcd, `/registry/services/specs/default/${name}`, Buffer.from(JSON.stringify(stored)))
}

/** An IPAddress that is correct apart from the arguments. */
export function ipAddressNamed(
  name: string,
  parent: { readonly name: string; readonly resource?: string; readonly group?: string },
  labels: Readonly<Record<string, string>> = ipAddressLabels,
): unknown {
  const parentRef = { group: '', resource: 'services', namespace: 'default', ...parent }
  return { apiVersion: 'networking.k8s.io/v1', kind: 'IPAddress', metadata: { name, labels }, spec: { parentRef } }
}

/** Changes an IPAddress in etcd in one step, also its parent, which no API server lets a client change. */
export async function changeIpAddress(
  { etcd, server }: Required<AllocationsOf>,
  name: string,
  change: (ipAddress: IpAddress) => IpAddress,
): Promise<void> {
  const found = await server.api.get<IpAddress>(`${allocationPaths.ipAddresses}/${name}`)
  const { resourceVersion: _, ...metadata } = found.metadata ?? {}
  const changed = change({ ...found, metadata })
  await storeValue(etcd, `${ipAddressPrefix}${name}`, Buffer.from(JSON.stringify(changed)))
}

/** Deletes all IPAddresses directly in etcd. */
export async function loseIpAddresses(etcd: Etcd): Promise<void> {
  await removeValues(etcd, [...(await storedValues(etcd, ipAddressPrefix)).keys()])
}
