// The lower bound of a start: a script that knows what the server will answer. It makes the calls that bootstrap an
// empty server, over one keep-alive connection, and prints how long they took, from the first to the last, in
// milliseconds.
// usage: node bare-calls.ts URL CA-FILE TOKEN SECURE-PORT

import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'

const [url = '', caFile = '', token = '', securePort = ''] = process.argv.slice(2)
const dispatcher = new Agent({
  connect: { ca: readFileSync(caFile, 'utf8') },
  allowH2: false,
  connections: 1,
  pipelining: 1,
})
const port = Number(securePort)

const startedAt = performance.now()
await call('GET', '/readyz')
await Promise.all([
  ...['kube-system', 'kube-public', 'default', 'kube-node-lease'].map((name) =>
    create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }),
  ),
  createServiceCidr(),
])
await Promise.all([createLease(), createService()])
await Promise.all([createEndpoints(), createSlice()])
console.log(performance.now() - startedAt)
await dispatcher.close()

async function createServiceCidr(): Promise<void> {
  const apiVersion = 'networking.k8s.io/v1'
  const path = '/apis/networking.k8s.io/v1/servicecidrs'
  const identity = { apiVersion, kind: 'ServiceCIDR', metadata: { name: 'kubernetes' } }
  await create(path, { ...identity, spec: { cidrs: ['10.96.0.0/12'] } })
  const condition = {
    type: 'Ready',
    status: 'True',
    reason: '',
    message: 'ready',
    lastTransitionTime: new Date().toISOString(),
  }
  const body = { ...identity, status: { conditions: [condition] } }
  await call('PATCH', `${path}/kubernetes/status?fieldManager=bench&force=true`, body, 'application/apply-patch+yaml')
}

function createLease(): Promise<void> {
  return create('/apis/coordination.k8s.io/v1/namespaces/kube-system/leases', {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'bench', namespace: 'kube-system' },
    spec: {
      holderIdentity: 'bench',
      leaseDurationSeconds: 15,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    },
  })
}

/** Retries until the allocator has seen the range, as every client must. */
async function createService(): Promise<void> {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kubernetes', namespace: 'default', labels: { component: 'apiserver', provider: 'kubernetes' } },
    spec: { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: port }] },
  }
  while ((await call('POST', '/api/v1/namespaces/default/services', service)) >= 300);
}

function createEndpoints(): Promise<void> {
  return create('/api/v1/namespaces/default/endpoints', {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' },
    },
    subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'https', port, protocol: 'TCP' }] }],
  })
}

function createSlice(): Promise<void> {
  return create('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices', {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'kubernetes', namespace: 'default', labels: { 'kubernetes.io/service-name': 'kubernetes' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }],
    ports: [{ name: 'https', port, protocol: 'TCP' }],
  })
}

async function create(path: string, object: unknown): Promise<void> {
  const status = await call('POST', path, object)
  if (status >= 300 && status !== 409) throw new Error(`POST ${path}: ${status}`)
}

async function call(
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  body?: unknown,
  type = 'application/json',
): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': type }) }
  const answer = await request(`${url}${path}`, {
    method,
    dispatcher,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  })
  await answer.body.dump()
  return answer.statusCode
}
