import type { EndpointSlice } from '../../../src/kube/resources.ts'
import type { ApiClient } from '../../peers/api-client.ts'
import { pathTo } from './cluster-state.ts'
import { type SliceManager, type Step, sliceManagers } from './steps.ts'

const managedBy = 'endpointslice.kubernetes.io/managed-by'
const serviceName = 'kubernetes.io/service-name'
const nobody = 'somebody-else'
const nowhere = 'elsewhere'

/** Without one of the first two labels, no controller manages a slice. No controller sees that the last is missing. */
const required =
  /^(endpointslice\.kubernetes\.io\/managed-by|kubernetes\.io\/service-name|service\.kubernetes\.io\/headless)$/

type Spoil = Extract<Step, { readonly type: 'spoil' }>

/**
 * Damages the first slice of the Service, ordered by content, to which the damage applies. Does nothing if there is
 * none.
 */
export async function spoil(api: ApiClient, namespace: string, step: Spoil): Promise<void> {
  const slice = await chosenSlice(api, namespace, step)
  if (slice === undefined) return
  const path = pathTo('endpointslices', namespace, slice.metadata?.name)
  const patch = (content: unknown): Promise<unknown> =>
    api.send('PATCH', path, { body: content, contentType: 'application/merge-patch+json' })
  const endpoints = slice.endpoints ?? []
  const relabel = (labels: Readonly<Record<string, string>>): Promise<unknown> => patch({ metadata: { labels } })
  const address = slice.addressType === 'IPv6' ? '2001:db8::99' : '192.0.2.99'
  switch (step.damage) {
    case 'delete':
      return void (await api.send('DELETE', path))
    case 'drop an endpoint':
      return void (await patch({ endpoints: endpoints.slice(1) }))
    case 'add an endpoint':
      return void (await patch({ endpoints: [...endpoints, { addresses: [address], conditions: { ready: true } }] }))
    case 'turn conditions over': {
      const turned = endpoints.map((endpoint) => ({ ...endpoint, conditions: { ready: !endpoint.conditions?.ready } }))
      return void (await patch({ endpoints: turned }))
    }
    case 'move an endpoint to another node': {
      const moved = endpoints.map((endpoint) => ({ ...endpoint, nodeName: 'node-8', zone: 'zone-x' }))
      return void (await patch({ endpoints: moved }))
    }
    case 'change ports':
      return void (await patch({ ports: [{ name: 'wrong', port: 6, protocol: 'TCP' }] }))
    case 'add a label':
      return void (await relabel({ other: 'yes' }))
    case 'take labels off': {
      const names = Object.keys(slice.metadata?.labels ?? {}).filter((name) => !required.test(name))
      return void (await patch({ metadata: { labels: Object.fromEntries(names.map((name) => [name, null])) } }))
    }
    case 'take the owner off':
      return void (await patch({ metadata: { ownerReferences: null } }))
    case 'duplicate': {
      const { labels, ownerReferences } = slice.metadata ?? {}
      const metadata = { generateName: `${step.service}-`, labels, ownerReferences }
      return void (await api.send('POST', pathTo('endpointslices', namespace), { body: { ...slice, metadata } }))
    }
    case 'take from its manager':
      return void (await relabel({ [managedBy]: nobody }))
    case 'give back to its manager':
      return void (await relabel({ [managedBy]: sliceManagers[step.manager] }))
    case 'take from its Service':
      return void (await relabel({ [serviceName]: nowhere }))
    case 'give back to its Service':
      return void (await relabel({ [serviceName]: step.service }))
  }
}

async function chosenSlice(api: ApiClient, namespace: string, step: Spoil): Promise<EndpointSlice | undefined> {
  const { items } = await api.get<{ readonly items: readonly EndpointSlice[] }>(pathTo('endpointslices', namespace))
  const manager = step.damage === 'give back to its manager' ? nobody : sliceManagers[step.manager]
  const service = step.damage === 'give back to its Service' ? nowhere : step.service
  const found = items.filter(({ metadata }) => {
    const labels = metadata?.labels ?? {}
    const isOfService = ownerOf(metadata?.ownerReferences, step.manager) === step.service
    return labels[managedBy] === manager && labels[serviceName] === service && isOfService
  })
  // The order must not depend on a generated name.
  const sorted = found.map((slice) => ({ slice, by: contentOf(slice) })).sort((a, b) => (a.by < b.by ? -1 : 1))
  return sorted[0]?.slice
}

function contentOf({ addressType, ports, endpoints }: EndpointSlice): string {
  return JSON.stringify([addressType, ports, endpoints?.map(({ addresses }) => addresses).sort()])
}

function ownerOf(references: unknown, manager: SliceManager): string | undefined {
  const kind = manager === 'selected' ? 'Service' : 'Endpoints'
  return (references as readonly { readonly kind: string; readonly name: string }[] | undefined)?.find(
    (reference) => reference.kind === kind,
  )?.name
}
