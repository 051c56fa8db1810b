import type { KubeApi } from '../../../src/kube/api.ts'
import { nodes, pods, services } from '../../../src/kube/resources.ts'

const condition = { type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }

/** A Node, two Pods, and Services that select them: `web` with a NodePort, `db` without a ClusterIP. */
export async function addWorkload(api: KubeApi): Promise<void> {
  await api.create(nodes, { metadata: { name: 'node-1', labels: { 'topology.kubernetes.io/zone': 'a' } } } as never)
  for (const [index, name] of ['web-1', 'web-2'].entries()) {
    const metadata = { namespace: 'default', name, labels: { app: 'web' } }
    const spec = {
      nodeName: 'node-1',
      containers: [{ name: 'main', image: 'none' }],
      automountServiceAccountToken: false,
    }
    await api.create(pods, { metadata, spec } as never)
    const podIP = `198.51.100.${index + 1}`
    const status = { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions: [condition] }
    await api.patch(pods, metadata, { type: 'merge', body: { status } }, { subresource: 'status' })
  }
  const selector = { app: 'web' }
  for (const [name, more] of [
    ['web', { type: 'NodePort' }],
    ['db', { clusterIP: 'None' }],
  ] as const) {
    const spec = { ...more, selector, ports: [{ name: 'http', port: 80, targetPort: 8080 }] }
    await api.create(services, { metadata: { namespace: 'default', name }, spec } as never)
  }
}
