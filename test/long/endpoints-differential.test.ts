import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openOwner } from '../peers/owner.ts'
import { expectSame } from '../real/workloads/differential.ts'
import { type Controllers, type Livable, Side } from '../real/workloads/side.ts'
import type { Step } from '../real/workloads/steps.ts'

// A suite has the time of all its tests, not of one.
const timeout = 170 * 60_000
const steps = 300

describeSeeds('kube-controller-manager makes the same of a history twice', {
  right: 'kube-controller-manager',
  seeds: 10,
})
describeSeeds('kube-controller-manager and this program make the same of a history', {
  right: 'apiserver-bootstrap',
  seeds: 200,
})

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
        return /replay.ts --seed 1 /.test(message)
      },
    )
  })
})

/** Odd seeds with slices of three endpoints at most, so that there are many to fill and to pack. */
function describeSeeds(title: string, { right, seeds }: { readonly right: Controllers; readonly seeds: number }): void {
  for (const maxEndpointsPerSlice of [100, 3]) {
    describe(`${title}, ${maxEndpointsPerSlice} endpoints a slice`, { concurrency: 1, timeout }, () => {
      const owner = openOwner({ after })
      let sides: readonly [Side, Side]
      before(async () => {
        sides = await Promise.all([
          Side.start(owner, 'kube-controller-manager', { maxEndpointsPerSlice }),
          Side.start(owner, right, { maxEndpointsPerSlice }),
        ])
      })

      for (let seed = maxEndpointsPerSlice === 3 ? 1 : 2; seed <= seeds; seed += 2) {
        test(`seed ${seed}`, () => expectSame(sides, seed, { steps, maxEndpointsPerSlice, shrinkMs: 10 * 60_000 }))
      }
    })
  }
}

/** A side on which some steps of a history are not taken. */
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
