import type { Step } from './steps.ts'
import { keyOf, type ServiceOfHistory, type World } from './world.ts'

type Families = ServiceOfHistory['families']

const selectors = [
  { app: 'web' },
  { app: 'web' },
  { app: 'db' },
  { tier: 'front' },
  { app: 'web', tier: 'back' },
  { app: 'none' },
]

const portSets = [
  [{ port: 80 }],
  [{ name: 'http', port: 80, targetPort: 8080 }],
  [{ name: 'http', port: 80, targetPort: 'web' }],
  [
    { name: 'http', port: 80, targetPort: 'web' },
    { name: 'metrics', port: 9090, targetPort: 'metrics' },
  ],
  [
    { name: 'dns', port: 53, protocol: 'UDP', targetPort: 'dns' },
    { name: 'dns-tcp', port: 53, targetPort: 5353 },
  ],
  [{ name: 'sctp', port: 9, protocol: 'SCTP', targetPort: 'web' }],
  [
    { name: 'grpc', port: 50051, targetPort: 'web', appProtocol: 'kubernetes.io/h2c' },
    { name: 'side', port: 81, targetPort: 'sidecar', appProtocol: 'http' },
    { name: 'same', port: 82, targetPort: 8080 },
  ],
]

/** The labels of the last two belong to the controllers. */
const labelSets = [
  { 'app.kubernetes.io/name': 'shop' },
  { 'app.kubernetes.io/name': 'shop', team: 'a' },
  { team: 'b', 'endpointslice.kubernetes.io/managed-by': 'me' },
  { 'kubernetes.io/service-name': 'other', 'service.kubernetes.io/headless': '' },
  { 'endpoints.kubernetes.io/managed-by': 'me' },
] as const

const autoAnnotation = 'service.kubernetes.io/topology-mode'
const deprecatedAutoAnnotation = 'service.kubernetes.io/topology-aware-hints'

export function createService(world: World): void {
  const place = world.freeName('s', 8, (key) => world.services.has(key) || world.buried.has(key))
  if (place !== undefined) create(world, place)
}

/** A deleted Service may come back at once with a selector: it takes over any Endpoints of its name. */
export function replaceService(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  world.add({ type: 'delete', plural: 'services', ...placeOf(service) })
  if (world.chance(0.4)) world.add({ type: 'pause', ms: world.below(150) })
  create(world, placeOf(service), true)
}

function create(world: World, { namespace, name }: { namespace: number; name: string }, selected = false): void {
  const families = world.pick<Families>(['IPv4', 'IPv4', 'IPv6', 'IPv4,IPv6', 'IPv4,IPv6', 'IPv6,IPv4'])
  const kind =
    world.chance(0.08) && !selected
      ? 'ExternalName'
      : world.pick(['ClusterIP', 'ClusterIP', 'headless', 'NodePort', 'LoadBalancer'])
  const selector = selected || world.chance(0.78) ? world.pick(selectors) : undefined
  const auto = world.chance(0.2)
  const service: ServiceOfHistory = {
    namespace,
    name,
    type: kind === 'headless' ? 'ClusterIP' : (kind as ServiceOfHistory['type']),
    headless: kind === 'headless',
    selector,
    labels: world.chance(0.5) ? world.pick<Readonly<Record<string, string>>>(labelSets) : {},
    auto,
    families,
  }
  const annotations = {
    ...(auto && { [world.pick([autoAnnotation, deprecatedAutoAnnotation])]: world.pick(['Auto', 'auto']) }),
    ...(world.chance(0.08) && { 'service.alpha.kubernetes.io/tolerate-unready-endpoints': 'true' }),
  }
  world.services.set(keyOf(service), service)
  world.add({
    type: 'create',
    plural: 'services',
    namespace,
    object: {
      metadata: { name, labels: service.labels, annotations },
      spec: {
        ...(selector !== undefined && { selector }),
        ...(world.chance(0.2) && { publishNotReadyAddresses: true }),
        ...typeFields(world, service),
      },
    } as object,
  })
}

function typeFields(world: World, service: ServiceOfHistory): object {
  const { type, headless, families } = service
  if (type === 'ExternalName') return { type, externalName: 'elsewhere.example.com' }
  const dual = families.includes(',')
  const distribution = world.chance(0.3) && { trafficDistribution: world.pick(distributions) }
  return {
    type,
    ...(headless && { clusterIP: 'None' }),
    ...(headless && world.chance(0.3) ? {} : { ports: world.pick(portSets) }),
    ipFamilies: families.split(','),
    ipFamilyPolicy: dual ? world.pick(['PreferDualStack', 'RequireDualStack']) : 'SingleStack',
    ...distribution,
  }
}

const distributions = ['PreferClose', 'PreferSameZone', 'PreferSameNode']

export function deleteService(world: World): void {
  const service = world.find(world.services.values())
  if (service === undefined) return
  world.services.delete(keyOf(service))
  world.endpoints.delete(keyOf(service))
  world.buried.add(keyOf(service))
  world.add({ type: 'delete', plural: 'services', ...placeOf(service) })
}

export function changeSelector(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  const selector = world.pick(selectors)
  world.services.set(keyOf(service), { ...service, selector })
  // A merge patch leaves the keys that it does not name.
  patch(world, service, { spec: { selector: { app: null, tier: null, ...selector } } })
}

export function changeServiceLabels(world: World): void {
  const service = world.find(world.services.values())
  if (service === undefined) return
  const labels = world.chance(0.3) ? {} : world.pick<Readonly<Record<string, string>>>(labelSets)
  const gone = Object.fromEntries(Object.keys(service.labels).map((key) => [key, null]))
  world.services.set(keyOf(service), { ...service, labels })
  patch(world, service, { metadata: { labels: { ...gone, ...labels } } })
}

export function changePorts(world: World): void {
  const service = world.find(world.services.values(), ({ type }) => type !== 'ExternalName')
  if (service !== undefined) patch(world, service, { spec: { ports: world.pick(portSets) } })
}

export function changePublishing(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service !== undefined) patch(world, service, { spec: { publishNotReadyAddresses: world.chance(0.5) } })
}

export function changeHints(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  if (world.chance(0.5)) {
    const trafficDistribution = world.chance(0.25) ? null : world.pick(distributions)
    patch(world, service, { spec: { trafficDistribution } })
    return
  }
  const auto = world.chance(0.6)
  world.services.set(keyOf(service), { ...service, auto })
  const annotations = {
    [autoAnnotation]: auto ? 'Auto' : world.pick([null, 'Disabled']),
    [deprecatedAutoAnnotation]: null,
  }
  patch(world, service, { metadata: { annotations } })
}

/** To both families, or back to the first. */
export function changeFamilies(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  const first = service.families.split(',')[0] as 'IPv4' | 'IPv6'
  const dual = !service.families.includes(',')
  const families: Families = dual ? (first === 'IPv4' ? 'IPv4,IPv6' : 'IPv6,IPv4') : first
  world.services.set(keyOf(service), { ...service, families })
  const clusterIPs = dual || service.headless ? {} : { clusterIPs: undefined }
  const ipFamilyPolicy = dual ? 'PreferDualStack' : 'SingleStack'
  patch(world, service, { spec: { ipFamilyPolicy, ...(dual && { ipFamilies: families.split(',') }), ...clusterIPs } })
}

export function changeType(world: World): void {
  const service = world.find(world.services.values(), ({ type, headless }) => type !== 'ExternalName' && !headless)
  if (service === undefined) return
  const type = world.pick<ServiceOfHistory['type']>(['ClusterIP', 'NodePort', 'LoadBalancer'])
  world.services.set(keyOf(service), { ...service, type })
  patch(world, service, { spec: { type } })
}

/**
 * Releases Services: the controllers no longer manage them, and leave behind what they made last. So that this is the
 * same everywhere, the controllers get time to come to rest first.
 */
export function releaseServices(world: World): void {
  world.settle()
  world.add({ type: 'quiet' })
  for (let count = 0; count < 3; count++) {
    const service = world.find(world.services.values(), isSelected)
    if (service === undefined) return
    if (world.chance(0.5)) {
      world.services.set(keyOf(service), { ...service, selector: undefined })
      // Whatever ports the Endpoints have had, with these contents there is only one slice to create.
      world.endpoints.add(keyOf(service))
      world.contentLists.set(keyOf(service), 'plain')
      patch(world, service, { spec: { selector: null } })
    } else {
      world.services.set(keyOf(service), { ...service, type: 'ExternalName', headless: false })
      const ips = { clusterIP: null, clusterIPs: null, ipFamilies: null, ipFamilyPolicy: null }
      const spec = { type: 'ExternalName', externalName: 'x.example.com', trafficDistribution: null, ...ips }
      patch(world, service, { spec })
    }
  }
}

/** Gives a released Service back to the controllers, or gives a selector to a Service that never had one. */
export function takeService(world: World): void {
  const service = world.find(world.services.values(), (candidate) => !isSelected(candidate))
  if (service === undefined) return
  const selector = service.selector ?? world.pick(selectors)
  const wasExternal = service.type === 'ExternalName'
  const families: Families = wasExternal ? 'IPv4' : service.families
  const type = wasExternal ? 'ClusterIP' : service.type
  world.services.set(keyOf(service), { ...service, type, selector, families })
  world.endpoints.delete(keyOf(service))
  const spec = wasExternal ? { type, externalName: null, ports: world.pick(portSets), selector } : { selector }
  patch(world, service, { spec })
}

export function isSelected(service: ServiceOfHistory): boolean {
  return service.selector !== undefined && service.type !== 'ExternalName'
}

function patch(world: World, service: ServiceOfHistory, content: unknown): void {
  const step: Step = { type: 'patch', plural: 'services', ...placeOf(service), patch: content }
  world.add(step)
}

function placeOf({ namespace, name }: ServiceOfHistory): { readonly namespace: number; readonly name: string } {
  return { namespace, name }
}
