import { type Random, seededRandom } from '../../../src/runtime/random.ts'
import { changeHandMadeEndpoints, damageEndpoints, deleteHandMadeEndpoints, makeEndpoints } from './endpoints-moves.ts'
import { changeNodeStatus, createNode, deleteNode, moveNode } from './node-moves.ts'
import {
  annotatePod,
  bindPod,
  changeAddresses,
  createPod,
  deletePod,
  finishPod,
  relabelPod,
  terminatePod,
  turnReadiness,
} from './pod-moves.ts'
import {
  changeFamilies,
  changeHints,
  changePorts,
  changePublishing,
  changeSelector,
  changeServiceLabels,
  changeType,
  createService,
  deleteService,
  releaseServices,
  replaceService,
  takeService,
} from './service-moves.ts'
import { borrowSlice, damageSlice, makeForeignSlice, returnSlice, takeOwnerOff } from './slice-moves.ts'
import type { Step } from './steps.ts'
import { World } from './world.ts'

type Move = (world: World) => void

/** The moves, with their relative frequencies. */
const moves: readonly (readonly [weight: number, move: Move])[] = [
  [18, createPod],
  [22, turnReadiness],
  [8, changeAddresses],
  [4, finishPod],
  [6, relabelPod],
  [5, terminatePod],
  [6, deletePod],
  [1, annotatePod],
  [2, bindPod],

  [8, createService],
  [2, deleteService],
  [4, replaceService],
  [3, changeSelector],
  [3, changeServiceLabels],
  [3, changePorts],
  [2, changePublishing],
  [4, changeHints],
  [3, changeFamilies],
  [1, changeType],
  [3, takeService],

  [1.5, createNode],
  [1, deleteNode],
  [1.5, moveNode],
  [1.5, changeNodeStatus],

  [4, makeEndpoints],
  [5, changeHandMadeEndpoints],
  [1, deleteHandMadeEndpoints],
  [4, damageEndpoints],

  [8, damageSlice],
  [1, takeOwnerOff],
  [1.5, borrowSlice],
  [1, returnSlice],
  [2, makeForeignSlice],
  [6, (world) => world.add({ type: 'pause', ms: world.below(120) })],
]

const settleEvery = 70

/**
 * The history of a seed: changes of Services, Pods, Nodes, Endpoints and slices in two namespaces, as plain data. The
 * same seed makes the same history. It has `steps` steps, or one or two more. A few more at its end make the
 * controllers see all changes, so that their result does not depend on when they synced.
 */
export function historyOf(seed: number, { steps }: { readonly steps: number }): readonly Step[] {
  const world = new World(seededRandom(seed, 'workloads'))
  const total = moves.reduce((sum, [weight]) => sum + weight, 0)
  for (let count = 0; count < 5; count++) createNode(world)
  for (let count = 0; count < 8; count++) createService(world)
  for (let count = 0; count < 14; count++) createPod(world)
  const releaseAt = Math.floor(steps * (0.4 + 0.4 * world.random.next()))
  let settleAt = settleEvery
  let released = false
  while (world.steps.length < steps) {
    if (!released && world.steps.length >= releaseAt) {
      released = true
      releaseServices(world)
    } else if (world.steps.length >= settleAt) {
      settleAt += settleEvery
      world.settle()
    } else {
      chosen(world, total)(world)
    }
  }
  world.settle()
  return world.steps
}

function chosen(world: World, total: number): Move {
  let left = world.random.next() * total
  for (const [weight, move] of moves) {
    left -= weight
    if (left < 0) return move
  }
  return (moves[0] as readonly [number, Move])[1]
}

type History = (seed: number, options: { readonly steps: number }) => readonly Step[]

/** By the name that `replay.ts` takes. */
export const histories = {
  plain: historyOf,
  /** Each step waits until the controllers have come to rest, so that no sync sees two steps. */
  'one-at-a-time': (seed, options) => oneAtATime(historyOf(seed, options)),
  /**
   * The first half happens while no controller runs. The second half waits until the controllers have seen all of the
   * first: which Service a controller syncs first after its start is random.
   */
  'begun-without-controllers': (seed, options) => {
    const steps = historyOf(seed, options)
    const half = Math.floor(steps.length / 2)
    const begun = steps.slice(0, half).filter(isChange)
    return [
      { type: 'stop controllers' },
      ...begun,
      { type: 'start controllers' },
      { type: 'quiet' },
      ...steps.slice(half),
    ]
  },
  /**
   * One of the two namespaces terminates after two thirds of the steps. Upstream ends a sync at the first slice that it
   * may not create, so the slices stay as some sync found them. So the steps that follow come one at a time.
   */
  'terminating-namespace': (seed, options) => {
    const steps = historyOf(seed, options)
    const at = Math.floor((steps.length * 2) / 3)
    const terminate: readonly Step[] = [{ type: 'quiet' }, { type: 'terminate', namespace: 1 }, { type: 'quiet' }]
    return [...steps.slice(0, at), ...terminate, ...oneAtATime(steps.slice(at))]
  },
  /**
   * For controllers whose caches may lag behind by a second: they see everything before and right after a step after
   * which no sync changes what they have made, and before the last changes. They see that a Service is gone before
   * another gets its name, because Endpoints that stay the same retain their headless label. They see everything before
   * a Service is deleted that has a slice without an owner, because after that no sync deletes the slice.
   */
  'late-caches': (seed, options) => {
    const steps = historyOf(seed, options)
    const lastPause = steps.findLastIndex(({ type }) => type === 'pause')
    const quiet = { type: 'quiet' } as const
    const deleted = new Set<string>()
    const withoutOwner = new Set<string>()
    const needsQuiet = (step: Step): boolean => {
      if (step.type === 'spoil' && step.damage === 'take the owner off') {
        withoutOwner.add(`${step.namespace}/${step.service}`)
      } else if (step.type === 'delete' && step.plural === 'services') {
        deleted.add(`${step.namespace}/${step.name}`)
        return withoutOwner.delete(`${step.namespace}/${step.name}`)
      } else if (step.type === 'create' && step.plural === 'services') {
        return deleted.delete(`${step.namespace}/${step.object.metadata?.name}`)
      }
      return false
    }
    return steps.flatMap((step, index): readonly Step[] => {
      if (freezes(step)) return [quiet, step, quiet]
      return needsQuiet(step) || index === lastPause ? [quiet, step] : [step]
    })
  },
  /** With an odd seed all 1,040 Pods are ready. */
  'over-capacity': (seed) => overCapacity(seededRandom(seed, 'over capacity'), seed % 2 === 1 ? 0 : 0.1),
} as const satisfies Readonly<Record<string, History>>

export type HistoryName = keyof typeof histories

function oneAtATime(steps: readonly Step[]): readonly Step[] {
  return steps.filter(isChange).flatMap((step) => [step, { type: 'quiet' }])
}

/** Whether the controllers leave the slices of a Service as they are from then on. */
function freezes(step: Step): boolean {
  if (step.type !== 'patch' || step.plural !== 'services') return false
  const { spec } = step.patch as { readonly spec?: { readonly type?: string; readonly selector?: object | null } }
  return spec?.type === 'ExternalName' || spec?.selector === null
}

function isChange({ type }: Step): boolean {
  return type !== 'pause' && type !== 'quiet'
}

/** A Service with more Pods than the 1,000 addresses that Endpoints hold. A share of the Pods is not ready. */
function overCapacity(random: Random, unready: number): readonly Step[] {
  const labels = { app: 'big' }
  const service = { metadata: { name: 'big' }, spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] } }
  const pods = Array.from({ length: 1040 }, (_, index): readonly Step[] => {
    const name = `p${index}`
    const spec = { nodeName: 'node-1', containers: [{ name: 'main', image: 'example.com/image' }] }
    const podIP = `10.1.${index >> 8}.${index & 255}`
    const conditions = [{ type: 'Ready', status: random.next() < unready ? 'False' : 'True' }]
    const status = { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions }
    const at = { plural: 'pods', namespace: 0 } as const
    return [
      { type: 'create', ...at, object: { metadata: { name, labels }, spec } as object },
      { type: 'patch', ...at, name, subresource: 'status', patch: { status } },
    ]
  })
  return [{ type: 'create', plural: 'services', namespace: 0, object: service as object }, ...pods.flat()]
}
