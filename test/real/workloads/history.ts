import { seededRandom } from '../../../src/runtime/random.ts'
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

/** How often each is done among the others. */
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
 * The history of a seed: what is done to Services, Pods, Nodes, Endpoints and slices in two namespaces, as plain data. The same seed makes
 * the same history. It has `steps` steps, or one or two more, and a few at its end with which all of it comes to the controllers' notice, so that what they
 * make of it does not depend on when they looked.
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
