import type { KubeApi } from '../kube/api.ts'
import { type Namespace, namespaces, type Service, services } from '../kube/resources.ts'
import type { ObservedObjects, ObservedService } from '../verify/observation.ts'
import { WATCH_SECONDS } from './listings.ts'

type Found = Pick<ObservedObjects, 'service' | 'namespaces'>

/** Hears how the Service `kubernetes` and the namespaces are each time that they have changed, until the signal is aborted. */
export async function followObjects(api: KubeApi, hear: (found: Found) => void, signal: AbortSignal): Promise<void> {
  const names = new Set<string>()
  let service: ObservedService | undefined
  const synced = new Set<'service' | 'namespaces'>()
  const tell = (): void => {
    // Not before both lists are known.
    if (synced.size === 2) hear({ service, namespaces: [...names].sort() })
  }
  const watched = { sendInitialEvents: true, allowWatchBookmarks: true, timeoutSeconds: WATCH_SECONDS, signal }
  const followService = async (): Promise<void> => {
    const query = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes', ...watched }
    for await (const event of api.watch(services, query)) {
      if (event.type === 'BOOKMARK') synced.add('service')
      else if (event.type !== 'ERROR')
        service = event.type === 'DELETED' ? undefined : serviceOf(event.object as Service)
      tell()
    }
  }
  const followNamespaces = async (): Promise<void> => {
    for await (const event of api.watch(namespaces, watched)) {
      if (event.type === 'ERROR') continue
      if (event.type === 'BOOKMARK') synced.add('namespaces')
      else {
        const { metadata } = event.object as Namespace
        if (event.type === 'DELETED') names.delete(metadata?.name ?? '')
        else names.add(metadata?.name ?? '')
      }
      tell()
    }
  }
  await Promise.all([followService(), followNamespaces()])
}

function serviceOf({ metadata, spec }: Service): ObservedService {
  const ports = (spec?.ports ?? []).map(({ name = '', port, protocol = 'TCP', nodePort }) => ({
    name,
    port,
    protocol,
    nodePort: nodePort === 0 ? undefined : nodePort,
  }))
  return { uid: metadata?.uid ?? '', clusterIP: spec?.clusterIP ?? '', ports }
}
