import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openOwner } from '../peers/owner.ts'
import { RunningProcess } from '../peers/process.ts'
import { expectSame } from '../real/workloads/differential.ts'
import type { HistoryName } from '../real/workloads/history.ts'
import { type Controllers, type Livable, Side, type Trouble } from '../real/workloads/side.ts'
import type { Step } from '../real/workloads/steps.ts'

// The timeout of a suite is for all its tests, not for one.
const timeout = 170 * 60_000

describeSeeds('kube-controller-manager makes the same of a history twice', {
  right: 'kube-controller-manager',
  seeds: 10,
})
describeSeeds('kube-controller-manager and this program make the same of a history', {
  right: 'apiserver-bootstrap',
  seeds: 200,
})

const ours = 'apiserver-bootstrap'
describeSeeds('one step at a time, with trigger times', { right: ours, seeds: 6, steps: 60, history: 'one-at-a-time' })
describeSeeds('a history that began before the controllers', {
  right: ours,
  seeds: 20,
  history: 'begun-without-controllers',
})
describeSeeds('a namespace that terminates', { right: ours, seeds: 6, steps: 120, history: 'terminating-namespace' })
describeSeeds('more Pods than Endpoints hold', { right: ours, seeds: 2, history: 'over-capacity' })
describeSeeds('a server that answers only in JSON', { right: ours, seeds: 200, trouble: 'no-protobuf' })
describeSeeds('watches that are cut now and then', {
  right: ours,
  seeds: 200,
  history: 'late-caches',
  trouble: 'cut-watches',
})
describeSeeds('a history beside four busy loops', { right: ours, seeds: 20, busyLoops: 4 })

describe('a side that misses something', { timeout }, () => {
  test('is found out, with a history in which little else happens', async (t) => {
    const owner = openOwner(t)
    const maxEndpointsPerSlice = 100
    const sides = await Promise.all([
      Side.start(owner, 'kube-controller-manager', { maxEndpointsPerSlice }),
      Side.start(owner, 'kube-controller-manager', { maxEndpointsPerSlice }),
    ])
    const blind = withoutSome(sides[1], ({ type, ...step }) => type === 'patch' && 'subresource' in step)
    await assert.rejects(
      expectSame([sides[0], blind], 1, { steps: 120, shrinkMs: 5 * 60_000, maxEndpointsPerSlice }),
      ({ message }: Error) => {
        const [, left] = /makes some, (\d+) of/.exec(message) ?? []
        assert.ok(Number(left) <= 6, message)
        return /replay.ts --history plain --seed 1 /.test(message)
      },
    )
  })
})

interface SeedsOptions {
  readonly right: Controllers
  readonly seeds: number
  readonly steps?: number
  readonly history?: HistoryName
  /** Processes that keep the processors busy meanwhile. */
  readonly busyLoops?: number
  readonly trouble?: Trouble
}

/** Odd seeds use slices of at most three endpoints, so that there are many slices to fill and to pack. */
function describeSeeds(
  title: string,
  { right, seeds, steps = 300, history = 'plain', busyLoops = 0, trouble }: SeedsOptions,
): void {
  for (const maxEndpointsPerSlice of [100, 3]) {
    describe(`${title}, ${maxEndpointsPerSlice} endpoints a slice`, { concurrency: 1, timeout }, () => {
      const owner = openOwner({ after })
      let sides: readonly [Side, Side]
      before(async () => {
        for (let loop = 0; loop < busyLoops; loop++) {
          await RunningProcess.start(owner, { name: 'busy loop', command: process.execPath, args: ['-e', 'for (;;);'] })
        }
        sides = await Promise.all([
          Side.start(owner, 'kube-controller-manager', { maxEndpointsPerSlice }),
          Side.start(owner, right, { maxEndpointsPerSlice, trouble }),
        ])
      })

      for (let seed = maxEndpointsPerSlice === 3 ? 1 : 2; seed <= seeds; seed += 2) {
        test(`seed ${seed}`, () =>
          expectSame(sides, seed, { history, steps, maxEndpointsPerSlice, shrinkMs: 10 * 60_000 }))
      }
    })
  }
}

/** A side that skips some steps of a history. */
function withoutSome(side: Side, misses: (step: Step) => boolean): Livable {
  return {
    controllers: side.controllers,
    tail: () => side.tail(),
    live: async (all) => {
      const taken = all.map((step): Step => (misses(step) ? { type: 'pause', ms: 0 } : step))
      return side.live(taken)
    },
  }
}
