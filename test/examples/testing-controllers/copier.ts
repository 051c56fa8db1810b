import { setTimeout } from 'node:timers/promises'
import { CoreV1Api, type KubeConfig, makeInformer, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node'

/** Copies the data of each ConfigMap labelled `copy-to: NAME` to the ConfigMap NAME, until it is disposed of. */
export function startCopier(config: KubeConfig, namespace: string): AsyncDisposable {
  const api = config.makeApiClient(CoreV1Api)
  const list = () => api.listNamespacedConfigMap({ namespace, labelSelector: 'copy-to' })
  const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, 'copy-to')
  const stopping = new AbortController()
  const later = (task: () => void) => void setTimeout(200, undefined, stopping).then(task, () => {})

  async function copy(from: string): Promise<void> {
    const source = informer.get(from, namespace)
    const name = source?.metadata?.labels?.['copy-to']
    if (name === undefined || stopping.signal.aborted) return
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: source?.data }
    const applied = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply)
    await api.patchNamespacedConfigMap({ name, namespace, body, fieldManager: 'copier', force: true }, applied)
  }

  let copies = Promise.resolve()
  const enqueue = (name: string): void => {
    copies = copies.then(() => copy(name)).catch(() => later(() => enqueue(name)))
  }
  for (const event of ['add', 'update'] as const) informer.on(event, ({ metadata }) => enqueue(metadata?.name ?? ''))

  let watching = informer.start()
  const watchAgain = (): void => {
    watching = informer.start()
  }
  informer.on('error', () => later(watchAgain))
  return {
    async [Symbol.asyncDispose]() {
      stopping.abort()
      await watching
      await informer.stop()
      await copies
    },
  }
}
