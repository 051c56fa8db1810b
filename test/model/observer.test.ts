import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeaseObserver } from '../../src/kube/lease-observer.ts'
import * as observers from './observer.ts'

/** A lease lasts six ticks; a sixth of that is the shortest grace period. */
const TICK_MS = 1_500
const MASTERS = 2

test('in 300 random runs the model observer and LeaseObserver agree which leases are over and when a list is due', () => {
  let seed = 1
  const draw = (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed >>> 16) % below
  }
  let judged = 0
  for (let run = 0; run < 300; run++) {
    const shipped = new LeaseObserver({ maxGapMs: 4.5 * TICK_MS })
    let model = observers.unknownLeases
    let nowMs = 0
    const renewals: (number | undefined)[] = Array.from({ length: MASTERS }, () => undefined)
    const leaseOf = (master: number) => ({
      key: `${master}`,
      renewal: `${renewals[master]}`,
      ttlMs: 6 * TICK_MS,
    })
    const present = (): boolean[] => renewals.map((renewal) => renewal !== undefined)
    for (let at = 0; at < 200; at++) {
      const master = draw(MASTERS)
      const isReported = draw(2) === 0
      switch (draw(20)) {
        case 0: // renewed or created
          renewals[master] = run * 1_000 + at
          if (isReported) shipped.readOne(leaseOf(master), nowMs)
          model = observers.renewed(model, master, isReported)
          break
        case 1: // the watch starts again
          for (const [index, renewal] of renewals.entries()) {
            if (renewal === undefined) shipped.forget(`${index}`)
            else shipped.readOne(leaseOf(index), nowMs)
          }
          model = observers.watched(model, present())
          break
        case 2: // deleted
          renewals[master] = undefined
          break
        case 3:
          shipped.interrupted()
          model = observers.interrupted(model)
          break
        case 4:
        case 5:
        case 6:
        case 7:
        case 8: {
          const leases = renewals.flatMap((renewal, index) => (renewal === undefined ? [] : [leaseOf(index)]))
          shipped.readAll(leases, nowMs)
          model = observers.listed(model, present())
          break
        }
        default: {
          const dueMs = shipped.nextReadMs(nowMs)
          const after = observers.older(model)
          nowMs += TICK_MS
          assert.equal(observers.isListDue(model, after), dueMs === nowMs, `run ${run}, ${at}: when to list`)
          model = after
        }
      }
      for (let index = 0; index < MASTERS; index++) {
        const isOver = shipped.isOver(`${index}`)
        if (isOver) judged++
        assert.equal(observers.isOver(model, index), isOver, `run ${run}, ${at}: lease ${index}`)
      }
    }
  }
  assert.ok(judged > 1_000)
})
