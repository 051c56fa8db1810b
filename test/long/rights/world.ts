import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Apiserver } from '../../peers/apiserver.ts'
import { CertificateAuthority } from '../../peers/certificates.ts'
import { startCluster } from '../../peers/cluster.ts'
import { writeKubeconfig } from '../../peers/kubeconfig.ts'
import { kubectlFor } from '../../peers/kubectl.ts'
import { paths } from '../../peers/kubernetes-service.ts'
import { type Owner, temporaryDirectory } from '../../peers/owner.ts'
import { startMaster } from '../../peers/program.ts'
import { untilPasses } from '../../peers/until.ts'
import { type GrantedRole, grantedRoles } from './right.ts'

/**
 * A server on which the user `apiserver-bootstrap` has all rights that config/kustomize grants, with an audit log of
 * what this user does.
 */
export interface World {
  readonly server: Apiserver
  /** Of the user `apiserver-bootstrap`. */
  readonly kubeconfig: string
  readonly auditLog: string
  readonly roles: readonly GrantedRole[]
  /** A certificate and key for the health server, as flags. */
  readonly healthFlags: readonly string[]
}

export type Worlds = Readonly<Record<'bare' | 'bare-1.32', World>>

export const ranges = '10.96.0.0/12,fd00:10:96::/112'

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  // The log records a watch when it begins: its end may come after the log was read.
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata' }],
}

async function startWorld(owner: Owner, kind: 'bare' | 'bare-1.32'): Promise<World> {
  const directory = temporaryDirectory(owner, 'rights')
  const file = (name: string): string => join(directory, name)
  const auditLog = file('audit.log')
  writeFileSync(file('policy.json'), JSON.stringify(policy))
  const { server, etcd } = await startCluster(owner, {
    kind,
    authorization: 'RBAC',
    flags: [
      `--service-cluster-ip-range=${ranges}`,
      `--audit-policy-file=${file('policy.json')}`,
      `--audit-log-path=${auditLog}`,
      // Streamed lists are watches. On a server without them a client needs the right to list.
      '--feature-gates=WatchList=false',
      '--enable-admission-plugins=OwnerReferencesPermissionEnforcement',
    ],
  })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const must = async (...args: readonly string[]): Promise<void> => {
    const { code, stderr } = await kubectl(...args)
    assert.equal(code, 0, stderr)
  }
  const part = (name: string): string =>
    relative(directory, fileURLToPath(new URL(`../../../config/kustomize/${name}`, import.meta.url)))
  // Each part includes ../rbac, and kustomize accepts no object twice.
  for (const name of ['rbac-endpoints', 'rbac-service-cidr']) {
    const applied = { resources: [part(name)], components: [part('components/rbac-reviews')] }
    writeFileSync(file('kustomization.yaml'), JSON.stringify(applied))
    await must('apply', '-k', directory)
  }
  await must('apply', '-f', join(directory, part('lease-namespace/leases.yaml')))
  // These bindings allow every client to get /readyz.
  await must('delete', 'clusterrolebinding', 'system:public-info-viewer', 'system:discovery')
  // A server without a ServiceCIDR and without the bitmap of NodePorts allocates no address or port to a Service.
  const preparing = await startMaster(owner, server, {
    address: '192.0.2.1',
    serviceClusterIpRange: ranges,
    flags: [`--etcd-servers=${etcd.url}`, '--on-shutdown=always'],
  })
  await untilPasses(
    'NodePorts to be given',
    () => server.api.create(paths.services, { metadata: { name: 'any' }, spec: nodePortSpec }),
    { withinMs: 60_000 },
  )
  await preparing.stop()

  const { certificate, key } = new CertificateAuthority().issue({ commonName: 'health', ips: ['127.0.0.1'] })
  writeFileSync(file('tls.crt'), certificate)
  writeFileSync(file('tls.key'), key, { mode: 0o600 })
  const kubeconfig = writeKubeconfig(file('kubeconfig'), {
    server: server.url,
    ca: server.authority.certificate,
    user: { token: server.token, as: 'apiserver-bootstrap' },
  })
  const healthFlags = [`--health-tls-cert-file=${file('tls.crt')}`, `--health-tls-private-key-file=${file('tls.key')}`]
  return { server, kubeconfig, auditLog, healthFlags, roles: await grantedRoles(server.api) }
}

export async function startWorlds(owner: Owner): Promise<Worlds> {
  const [bare, old] = await Promise.all([startWorld(owner, 'bare'), startWorld(owner, 'bare-1.32')])
  return { bare, 'bare-1.32': old }
}

export const nodePortSpec = {
  type: 'NodePort',
  ports: [{ port: 80 }],
  ipFamilyPolicy: 'RequireDualStack',
}

const serviceCidrs = '/apis/networking.k8s.io/v1/servicecidrs'
const leaseNamespaces = ['kube-system', 'apiserver-bootstrap']

/** Deletes everything that earlier situations have left, so that the program creates it again. */
export async function reset({ server: { api } }: World): Promise<void> {
  const items = async (path: string): Promise<readonly { metadata: { name: string } }[]> =>
    (await api.find<{ items: readonly { metadata: { name: string } }[] }>(path))?.items ?? []
  const collections = [
    ...['default', 'web'].flatMap((namespace) => [
      `/api/v1/namespaces/${namespace}/services`,
      `/api/v1/namespaces/${namespace}/endpoints`,
      `/api/v1/namespaces/${namespace}/pods`,
      `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    ]),
    // A server that has not seen its ServiceCIDR yet does not delete the IPAddress of a deleted Service.
    '/apis/networking.k8s.io/v1/ipaddresses',
    serviceCidrs,
    '/apis/events.k8s.io/v1/namespaces/default/events',
    ...leaseNamespaces.map((namespace) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`),
    '/api/v1/namespaces/kube-system/configmaps',
  ]
  for (const collection of collections) {
    for (const { metadata } of await items(collection)) {
      // A controller of ServiceCIDRs may have stopped before it removed its finalizer.
      if (collection === serviceCidrs) {
        const contentType = 'application/merge-patch+json'
        const body = { metadata: { finalizers: null } }
        await api.send('PATCH', `${collection}/${metadata.name}`, { body, contentType })
      }
      if (collection.endsWith('/leases') && !metadata.name.startsWith('apiserver-bootstrap')) continue
      const grace = collection.endsWith('/pods') ? '?gracePeriodSeconds=0' : ''
      await api.send('DELETE', `${collection}/${metadata.name}${grace}`)
    }
  }
  const namespace = `${paths.namespaces}/kube-node-lease`
  await api.send('DELETE', namespace)
  // No other process does this.
  await api.send('PUT', `${namespace}/finalize`, {
    body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-node-lease' }, spec: { finalizers: [] } },
  })
}
