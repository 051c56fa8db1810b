import { keyOf, type PodOfHistory, selects, type World } from './world.ts'

const apps = ['web', 'web', 'db']
const tiers = ['front', 'back']

/** Containers whose named ports differ, so that the targetPort of a Service resolves differently in each. */
const containerSets = [
  { containers: [container('main', [port('web', 8080), port('metrics', 9100)])] },
  {
    containers: [
      container('main', [port('web', 8081), port('dns', 5353, 'UDP')]),
      container('second', [port('web', 9999, 'SCTP'), port('metrics', 9101)]),
    ],
  },
  { containers: [container('main', [])] },
  {
    containers: [container('main', []), container('second', [port('web', 8080), port('metrics', 9100)])],
    initContainers: [
      container('setup', [port('sidecar', 14999)]),
      { ...container('proxy', [port('sidecar', 15000)]), restartPolicy: 'Always' },
    ],
  },
] as const

export function createPod(world: World): void {
  const place = world.freeName('p', 14, (key) => world.pods.has(key))
  if (place === undefined) return
  const { namespace, name } = place
  const labels = {
    app: world.pick(apps),
    ...(world.chance(0.8) && { tier: world.pick(tiers) }),
    ...(world.chance(0.1) && { 'kubernetes.io/metadata.name': name }),
  }
  // The Node `node-9` is never created.
  const node = world.chance(0.08) ? undefined : world.chance(0.04) ? 'node-9' : world.pick([...world.nodes])
  const finalizer = world.chance(0.1)
  const subdomain = world.chance(0.25) ? `s${world.below(8)}` : undefined
  world.add({
    type: 'create',
    plural: 'pods',
    namespace,
    object: {
      metadata: { name, labels, ...(finalizer && { finalizers: ['example.com/hold'] }) },
      spec: {
        ...world.pick(containerSets),
        ...(node !== undefined && { nodeName: node }),
        ...(world.chance(0.2) && { hostname: name }),
        ...(subdomain !== undefined && { hostname: name, subdomain }),
      },
    } as object,
  })
  const pod: PodOfHistory = { namespace, name, labels, node, ready: false, ips: [], state: 'alive', finalizer }
  world.pods.set(keyOf(pod), pod)
  if (world.chance(0.9)) start(world, pod)
}

/**
 * Writes phase, addresses and readiness, as a kubelet does first. A Pod without a Node gets none: its address would go
 * into Endpoints with an empty nodeName. No server accepts that, and upstream's controller retries for minutes and
 * gives up.
 */
function start(world: World, pod: PodOfHistory): void {
  if (pod.node === undefined) return
  const ips = addressSet(world)
  const ready = world.chance(0.75)
  writeStatus(world, { ...pod, ips, ready }, { phase: world.chance(0.9) ? 'Running' : 'Pending' })
}

/** Binds a Pod that has no Node to one. */
export function bindPod(world: World): void {
  const pod = world.find(world.pods.values(), ({ node, state }) => node === undefined && state === 'alive')
  const node = world.find(world.nodes)
  if (pod === undefined || node === undefined) return
  const object = { metadata: { name: pod.name }, target: { kind: 'Node', name: node } } as object
  world.add({ type: 'create', plural: 'pods', namespace: pod.namespace, subresource: 'binding', object })
  const bound = { ...pod, node }
  world.pods.set(keyOf(pod), bound)
  start(world, bound)
}

export function turnReadiness(world: World): void {
  const pod = world.find(world.pods.values(), ({ state, node }) => state !== 'finished' && node !== undefined)
  if (pod === undefined) return
  if (pod.ips.length === 0) start(world, pod)
  else writeStatus(world, { ...pod, ready: !pod.ready || world.chance(0.3) })
}

export function changeAddresses(world: World): void {
  const pod = world.find(world.pods.values(), ({ state, node }) => state !== 'finished' && node !== undefined)
  if (pod === undefined) return
  writeStatus(world, { ...pod, ips: world.chance(0.15) ? [] : addressSet(world) })
}

/** A change of the phase alone triggers no sync of kube-controller-manager. */
export function finishPod(world: World): void {
  const pod = world.find(world.pods.values(), ({ state }) => state === 'alive')
  if (pod === undefined) return
  const finished: PodOfHistory = { ...pod, state: 'finished', ready: world.chance(0.3) && pod.ready }
  writeStatus(world, finished, { phase: world.pick(['Succeeded', 'Failed']) })
  world.markStale((service) => selects(service, pod))
}

export function relabelPod(world: World): void {
  const pod = world.find(world.pods.values())
  if (pod === undefined) return
  const labels = { ...pod.labels, app: world.pick(apps), tier: world.pick(tiers) }
  world.pods.set(keyOf(pod), { ...pod, labels })
  world.add({ type: 'patch', plural: 'pods', ...placeOf(pod), patch: { metadata: { labels } } })
}

/** Without a kubelet, a Pod on a Node stays there for ever after a request to delete it. */
export function terminatePod(world: World): void {
  const pod = world.find(world.pods.values(), ({ state, node }) => state === 'alive' && node !== undefined)
  if (pod === undefined) return
  world.pods.set(keyOf(pod), { ...pod, state: 'terminating' })
  world.add({ type: 'delete', plural: 'pods', ...placeOf(pod), graceSeconds: 3600 })
}

export function deletePod(world: World): void {
  const pod = world.find(world.pods.values(), ({ state }) => state !== 'alive' || world.chance(0.2))
  if (pod === undefined) return
  world.add({ type: 'delete', plural: 'pods', ...placeOf(pod), graceSeconds: 0 })
  if (pod.finalizer) {
    if (world.chance(0.5)) world.add({ type: 'pause', ms: world.below(60) })
    world.add({ type: 'patch', plural: 'pods', ...placeOf(pod), patch: { metadata: { finalizers: null } } })
  }
  world.pods.delete(keyOf(pod))
}

/** A change that no controller may react to. */
export function annotatePod(world: World): void {
  const pod = world.find(world.pods.values())
  if (pod !== undefined) world.touch('pods', pod)
}

function addressSet(world: World): readonly string[] {
  const [four, six] = world.addresses()
  return world.pick([[four], [four], [four, six], [four, six], [four, six], [six, four], [six]])
}

function writeStatus(world: World, pod: PodOfHistory, more: { readonly phase?: string } = {}): void {
  world.pods.set(keyOf(pod), pod)
  const conditions = [
    ...(world.chance(0.3) ? [{ type: 'ContainersReady', status: pod.ready ? 'True' : 'False' }] : []),
    ...(pod.ready || world.chance(0.8)
      ? [{ type: 'Ready', status: pod.ready ? 'True' : world.pick(['False', 'Unknown']) }]
      : []),
  ]
  const podIPs = pod.ips.map((ip) => ({ ip }))
  const status = { ...more, conditions, podIP: pod.ips[0] ?? null, podIPs: podIPs.length === 0 ? null : podIPs }
  world.add({ type: 'patch', plural: 'pods', ...placeOf(pod), subresource: 'status', patch: { status } })
}

function placeOf({ namespace, name }: PodOfHistory): { readonly namespace: number; readonly name: string } {
  return { namespace, name }
}

function container(name: string, ports: readonly unknown[]) {
  return { name, image: 'example.com/none', ports }
}

function port(name: string, containerPort: number, protocol = 'TCP') {
  return { name, containerPort, protocol }
}
