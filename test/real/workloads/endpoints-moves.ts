import { isSelected } from './service-moves.ts'
import { keyOf, type World } from './world.ts'

/**
 * Endpoints that people write: for Services without a selector, without any Service, and over what the controller
 * wrote.
 */

const targetRef = { kind: 'Pod', name: 'by-hand', namespace: 'somewhere', uid: '00000000-0000-4000-8000-000000000001' }

/**
 * The contents that the same Endpoints may have one after another. In each list, the ports and families of one content
 * are among those of the next. So a change creates new slices or deletes old ones, and never does both with more than
 * one new slice. If a change did both, upstream's `recycleSlices` would take the wrong slice from those to create: the
 * first one without a name. It then could not create a slice that already has a name, and would retry, with back-off,
 * until Go's maps come in a favourable order.
 */
const contentLists = {
  /** One list of ports, one family. */
  plain: [
    [],
    [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }], ports: [{ port: 80 }] }],
    [{ addresses: [{ ip: '192.0.2.1', hostname: 'one', nodeName: 'node-0' }], ports: [{ port: 80 }] }],
    [{ addresses: [{ ip: '192.0.2.2' }], notReadyAddresses: [{ ip: '192.0.2.4', targetRef }], ports: [{ port: 80 }] }],
  ],
  /** The same address, ready and not ready. */
  contradictory: [
    [],
    [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'http', port: 80 }] }],
    [
      { addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'http', port: 80 }] },
      { notReadyAddresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'http', port: 80 }] },
    ],
  ],
  portless: [
    [],
    [{ addresses: [{ ip: '192.0.2.1' }], notReadyAddresses: [{ ip: '192.0.2.2' }] }],
    [{ addresses: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }], notReadyAddresses: [{ ip: '192.0.2.2' }] }],
  ],
  severalPorts: [
    [],
    [
      {
        addresses: [{ ip: '192.0.2.1', hostname: 'one' }],
        ports: [
          { name: 'http', port: 80 },
          { name: 'metrics', port: 9090 },
        ],
      },
    ],
    [
      {
        addresses: [{ ip: '192.0.2.1' }],
        notReadyAddresses: [{ ip: '192.0.2.3' }, { ip: '2001:db8::3' }],
        ports: [
          { name: 'metrics', port: 9090 },
          { name: 'http', port: 80 },
        ],
      },
    ],
  ],
  severalSubsets: [
    [],
    [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'a', port: 1 }] }],
    [
      { addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'a', port: 1 }] },
      { addresses: [{ ip: '192.0.2.2' }], ports: [{ name: 'a', port: 2, protocol: 'UDP' }] },
      { addresses: [{ ip: '2001:db8::2' }], ports: [{ name: 'a', port: 1 }] },
    ],
  ],
  protocols: [
    [],
    [{ addresses: [{ ip: '192.0.2.9' }], ports: [{ name: 'h2', port: 443, appProtocol: 'kubernetes.io/h2c' }] }],
    [
      { addresses: [{ ip: '2001:db8::1' }], ports: [{ name: 'h2', port: 443, appProtocol: 'kubernetes.io/h2c' }] },
      { addresses: [{ ip: '192.0.2.9' }], ports: [{ name: 'h2', port: 443, appProtocol: 'kubernetes.io/h2c' }] },
    ],
  ],
} as const

export type ContentList = keyof typeof contentLists

function contentOf(world: World, list: ContentList): readonly unknown[] {
  return world.pick<readonly unknown[]>(contentLists[list])
}

const metadataSets = [
  {},
  { labels: { team: 'a' } },
  { labels: { team: 'b', 'service.kubernetes.io/headless': '' }, annotations: { 'example.com/note': 'by hand' } },
  { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
  { labels: { 'kubernetes.io/service-name': 'other', 'endpointslice.kubernetes.io/managed-by': 'me' } },
  { annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z' } },
  { annotations: { 'control-plane.alpha.kubernetes.io/leader': '{}' } },
]

/** For Services without a selector, and sometimes for a name that no Service has. */
export function makeEndpoints(world: World): void {
  const isOurs = (key: string): boolean => !world.endpoints.has(key)
  const service = world.find(world.services.values(), (found) => found.selector === undefined && isOurs(keyOf(found)))
  const place =
    service !== undefined && world.chance(0.85)
      ? { namespace: service.namespace, name: service.name }
      : world.freeName('s', 8, (key) => world.services.has(key) || world.buried.has(key) || world.endpoints.has(key))
  if (place === undefined) return
  const list = world.contentLists.get(keyOf(place)) ?? world.pick(Object.keys(contentLists) as ContentList[])
  world.contentLists.set(keyOf(place), list)
  world.endpoints.add(keyOf(place))
  const metadata = { name: place.name, ...world.pick<object>(metadataSets) }
  const object = { metadata, subsets: contentOf(world, list) } as object
  world.add({ type: 'create', plural: 'endpoints', namespace: place.namespace, object })
}

export function changeHandMadeEndpoints(world: World): void {
  const place = handMade(world)
  const list = place && world.contentLists.get(keyOf(place))
  if (place === undefined || list === undefined) return
  const skip = 'endpointslice.kubernetes.io/skip-mirror'
  const leader = 'control-plane.alpha.kubernetes.io/leader'
  const change = world.pick<() => unknown>([
    () => ({ subsets: contentOf(world, list) }),
    () => ({ subsets: contentOf(world, list) }),
    () => ({ metadata: { labels: { team: world.pick(['a', 'b', null]) } } }),
    () => ({ metadata: { annotations: { 'example.com/note': world.pick(['one', 'two', null]) } } }),
    () => ({ metadata: { labels: { [skip]: world.pick(['true', 'false', null]) } } }),
    () => ({ metadata: { annotations: { [leader]: world.pick(['{}', null]) } } }),
  ])
  world.add({ type: 'patch', plural: 'endpoints', ...place, patch: change(), mayMiss: true })
  // A Service that was created later with this name may select Pods.
  world.markStale((service) => keyOf(service) === keyOf(place))
}

export function deleteHandMadeEndpoints(world: World): void {
  const place = handMade(world)
  if (place === undefined) return
  world.endpoints.delete(keyOf(place))
  // Without a Service, the Endpoints controller deletes the Endpoints of that name once it receives this event.
  if (!world.services.has(keyOf(place))) world.buried.add(keyOf(place))
  world.add({ type: 'delete', plural: 'endpoints', ...place, mayMiss: true })
}

/** Only the deletion of Endpoints triggers a sync. The controller corrects all other damage at its next sync. */
export function damageEndpoints(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  const place = { namespace: service.namespace, name: service.name }
  if (world.chance(0.3)) {
    world.add({ type: 'delete', plural: 'endpoints', ...place, mayMiss: true })
    return
  }
  const patch = world.pick<unknown>([
    { subsets: [] },
    { subsets: null },
    { subsets: [{ addresses: [{ ip: '192.0.2.66' }], ports: [{ port: 66 }] }] },
    { metadata: { labels: { other: 'yes' } } },
    { metadata: { labels: { 'endpoints.kubernetes.io/managed-by': null } } },
    { metadata: { labels: null } },
    { metadata: { annotations: { 'endpoints.kubernetes.io/over-capacity': 'truncated' } } },
  ])
  world.add({ type: 'patch', plural: 'endpoints', ...place, patch, mayMiss: true })
  world.markStale((candidate) => candidate === service)
}

function handMade(world: World): { readonly namespace: number; readonly name: string } | undefined {
  const key = world.find(world.endpoints)
  if (key === undefined) return undefined
  const [namespace, name] = key.split('/') as [string, string]
  return { namespace: Number(namespace), name }
}
