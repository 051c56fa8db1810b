import { selects, type World } from './world.ts'

// A Service with the annotation gets hints only if each zone has enough endpoints and every Node has a zone.
const zones = ['zone-a', 'zone-a', 'zone-b', 'zone-b', 'zone-c']
const zoneLabel = 'topology.kubernetes.io/zone'
const names = ['node-0', 'node-1', 'node-2', 'node-3', 'node-4', 'node-5']

// A change of a Node triggers no sync, except for Services that have hints by the annotation, and for those only at
// times.

export function createNode(world: World): void {
  const name = world.find(names, (candidate) => !world.nodes.has(candidate))
  if (name === undefined) return
  world.nodes.add(name)
  const zone = world.chance(0.02) ? undefined : world.pick(zones)
  world.add({
    type: 'create',
    plural: 'nodes',
    object: {
      metadata: {
        name,
        labels: {
          ...(zone !== undefined && { [zoneLabel]: zone }),
          ...(world.chance(0.1) && { 'node-role.kubernetes.io/control-plane': '' }),
        },
      },
      status: statusOf(world, !world.chance(0.1)),
    } as object,
  })
  markStale(world, name)
}

export function deleteNode(world: World): void {
  const name = world.find(world.nodes)
  if (name === undefined || world.nodes.size <= 2) return
  world.nodes.delete(name)
  world.add({ type: 'delete', plural: 'nodes', name })
  markStale(world, name)
}

export function moveNode(world: World): void {
  const name = world.find(world.nodes)
  if (name === undefined) return
  const labels = { [zoneLabel]: world.chance(0.05) ? null : world.pick(zones) }
  world.add({ type: 'patch', plural: 'nodes', name, patch: { metadata: { labels } } })
  markStale(world, name)
}

export function changeNodeStatus(world: World): void {
  const name = world.find(world.nodes)
  if (name === undefined) return
  const status = statusOf(world, world.chance(0.7))
  world.add({ type: 'patch', plural: 'nodes', name, subresource: 'status', patch: { status } })
  markStale(world, name)
}

function statusOf(world: World, ready: boolean): unknown {
  const cpu = world.chance(0.02) ? '0' : world.pick(['2', '4', '4000m', '8', '1500m'])
  return {
    allocatable: { cpu, memory: '8Gi' },
    capacity: { cpu, memory: '8Gi' },
    conditions: [
      { type: 'Ready', status: ready ? 'True' : 'False', lastHeartbeatTime: null, lastTransitionTime: null },
    ],
  }
}

function markStale(world: World, node: string): void {
  const pods = [...world.pods.values()].filter((pod) => pod.node === node)
  world.markStale((service) => service.auto || pods.some((pod) => selects(service, pod)))
}
