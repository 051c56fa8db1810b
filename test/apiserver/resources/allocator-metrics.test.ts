import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

const path = '/api/v1/namespaces/default/services'

async function samples(embedded: Embedded): Promise<readonly string[]> {
  const { status, body } = await embedded.send('GET', '/metrics')
  assert.equal(status, 200)
  return (body as string).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

function service(name: string, spec: object = {}): object {
  return { metadata: { name }, spec: { ports: [{ port: 1 }], ...spec } }
}

const ips = 'kube_apiserver_clusterip_allocator'
const ports = 'kube_apiserver_nodeport_allocator'
const inRange = 'cidr="10.96.0.0/24"'

test('the metrics count allocations of ClusterIPs and NodePorts by who chose them, refusals, and what is left', async () => {
  const embedded = await Embedded.started(['10.96.0.0/24'])
  const create = async (object: object, query = ''): Promise<number> =>
    (await embedded.send('POST', `${path}${query}`, object)).status
  assert.deepEqual(await samples(embedded), [
    `${ips}_allocated_ips{${inRange}} 0`,
    `${ips}_available_ips{${inRange}} 254`,
    `${ports}_allocated_ports 0`,
    `${ports}_available_ports 2768`,
  ])
  assert.equal(await create(service('dynamic')), 201)
  assert.equal(await create(service('static', { clusterIP: '10.96.0.9' })), 201)
  assert.equal(await create(service('taken', { clusterIP: '10.96.0.9' })), 422)
  assert.equal(await create(service('outside', { clusterIP: '192.0.2.1' })), 422)
  assert.equal(await create(service('headless', { clusterIP: 'None' })), 201)
  const typed = { type: 'NodePort' }
  assert.equal(await create(service('p', typed)), 201)
  assert.equal(await create(service('q', { ...typed, ports: [{ port: 1, nodePort: 30_100 }] })), 201)
  assert.equal(await create(service('r', { ...typed, ports: [{ port: 1, nodePort: 30_100 }] })), 422)
  // Nothing of a dry run counts.
  assert.equal(await create(service('dry'), '?dryRun=All'), 201)
  assert.equal(await create(service('dry', { clusterIP: '10.96.0.9' }), '?dryRun=All'), 422)
  await embedded.send('DELETE', `${path}/dynamic`)
  await embedded.send('DELETE', `${path}/q`)
  assert.deepEqual(await samples(embedded), [
    `${ips}_allocated_ips{${inRange}} 2`,
    `${ips}_available_ips{${inRange}} 252`,
    // Also of the Service whose port was refused after it had got its address.
    `${ips}_allocation_total{${inRange},scope="dynamic"} 4`,
    `${ips}_allocation_total{${inRange},scope="static"} 1`,
    `${ips}_allocation_errors_total{${inRange},scope="static"} 1`,
    `${ports}_allocated_ports 1`,
    `${ports}_available_ports 2767`,
    `${ports}_allocation_total{scope="dynamic"} 1`,
    `${ports}_allocation_total{scope="static"} 1`,
    `${ports}_allocation_errors_total{scope="static"} 1`,
  ])
})

test('a full range counts as a dynamic error', async () => {
  const embedded = await Embedded.started(['10.96.0.0/30'])
  for (const name of ['a', 'b']) assert.equal((await embedded.send('POST', path, service(name))).status, 201)
  assert.equal((await embedded.send('POST', path, service('c'))).status, 500)
  const found = await samples(embedded)
  assert.ok(found.includes(`${ips}_available_ips{cidr="10.96.0.0/30"} 0`))
  assert.ok(found.includes(`${ips}_allocation_errors_total{cidr="10.96.0.0/30",scope="dynamic"} 1`), found.join('\n'))
})

test('a server without allocators has no metrics', async () => {
  const embedded = await Embedded.started(['10.96.0.0/24'], { serviceAllocators: 'none' })
  assert.equal((await embedded.send('GET', '/metrics')).status, 404)
})
