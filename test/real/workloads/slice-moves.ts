import { isSelected } from './service-moves.ts'
import { type SliceDamage, sliceManagers } from './steps.ts'
import { keyOf, type World } from './world.ts'

const damages: readonly SliceDamage[] = [
  'delete',
  'drop an endpoint',
  'add an endpoint',
  'turn conditions over',
  'move an endpoint to another node',
  'change ports',
  'add a label',
  'take labels off',
  'duplicate',
]

/** Damages a slice that a controller manages. The controller sees all this damage, and corrects it. */
export function damageSlice(world: World): void {
  const service = world.find(world.services.values(), (found) => isSelected(found) || world.endpoints.has(keyOf(found)))
  if (service === undefined) return
  const { namespace, name } = service
  const manager = isSelected(service) ? 'selected' : 'mirrored'
  const damage = world.pick(damages)
  // Upstream's mirroring controller cannot create more than one new slice while it deletes another.
  if (manager === 'mirrored' && damage === 'change ports') return
  world.add({ type: 'spoil', namespace, service: name, manager, damage })
}

/** The controller does not see this damage. */
export function takeOwnerOff(world: World): void {
  const service = world.find(world.services.values(), isSelected)
  if (service === undefined) return
  const { namespace, name } = service
  world.add({ type: 'spoil', namespace, service: name, manager: 'selected', damage: 'take the owner off' })
  world.markStale((candidate) => candidate === service)
}

/**
 * Relabels a slice, and gives it back later. Meanwhile the controllers consider their view of the slices stale, and do
 * nothing for the Service.
 */
export function borrowSlice(world: World): void {
  const service = world.find(world.services.values(), (found) => isSelected(found) || world.endpoints.has(keyOf(found)))
  if (service === undefined) return
  const place = { type: 'spoil', namespace: service.namespace, service: service.name } as const
  const manager = isSelected(service) ? 'selected' : 'mirrored'
  // A controller deletes a slice that is labelled as a mirror of Endpoints that do not exist.
  const [away, back]: readonly [SliceDamage, SliceDamage] =
    manager === 'mirrored' || world.chance(0.5)
      ? ['take from its manager', 'give back to its manager']
      : ['take from its Service', 'give back to its Service']
  world.add({ ...place, manager, damage: away })
  world.borrowed.push({ ...place, manager, damage: back })
}

export function returnSlice(world: World): void {
  world.add(...world.borrowed.splice(0, 1))
}

const contents = [
  {
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 80 }],
    endpoints: [{ addresses: ['192.0.2.77'], conditions: {} }],
  },
  { addressType: 'IPv6', ports: [], endpoints: [{ addresses: ['2001:db8::77'] }] },
  { addressType: 'FQDN', ports: [{ port: 443 }], endpoints: [{ addresses: ['x.example.com'] }] },
  { addressType: 'IPv4', ports: [], endpoints: [] },
]

/** Slices of other writers, some with the labels of a controller. */
export function makeForeignSlice(world: World): void {
  const name = `foreign-${world.below(4)}`
  const namespace = world.below(2)
  const service = `s${world.below(8)}`
  const mirrored = world.endpoints.has(`${namespace}/${service}`)
  const manager = world.pick([undefined, 'me', sliceManagers.selected, ...(mirrored ? [] : [sliceManagers.mirrored])])
  const labels = {
    'kubernetes.io/service-name': service,
    ...(manager !== undefined && { 'endpointslice.kubernetes.io/managed-by': manager }),
  }
  const content = world.pick<object>(contents)
  world.add({ type: 'delete', plural: 'endpointslices', namespace, name, mayMiss: true })
  if (world.chance(0.3)) return
  world.add({
    type: 'create',
    plural: 'endpointslices',
    namespace,
    object: { metadata: { name, labels }, ...content } as object,
  })
}
