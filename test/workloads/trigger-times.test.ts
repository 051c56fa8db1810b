import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Pod, Service } from '../../src/kube/resources.ts'
import { TriggerTimes } from '../../src/workloads/trigger-times.ts'

const service = (creationTimestamp?: string): Service => ({
  metadata: { namespace: 'ns', name: 'web', ...(creationTimestamp !== undefined && { creationTimestamp }) },
})
const pod = (name: string, lastTransitionTime?: string | null): Pod =>
  ({
    metadata: { namespace: 'ns', name },
    status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] },
  }) as Pod

const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`

test('a Pod whose condition has no time, or Go’s zero time, is none that changed', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service(at(1)), []), at(1))
  const pods = [
    pod('a'),
    pod('b', null),
    pod('c', '0001-01-01T00:00:00Z'),
    pod('d', 'yesterday'),
    { metadata: { name: 'e' } },
  ]
  assert.equal(times.compute(service(at(1)), pods), undefined)
  assert.equal(times.compute(service(at(1)), [...pods, pod('f', at(5))]), at(5))
})

test('a Service of which no time is known has none, until a Pod changes', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service(), [pod('a', at(1))]), undefined)
  assert.equal(times.compute(service(), [pod('a', at(2))]), at(2))
})

test('a Pod whose time goes back has not changed, and that time is what the next is compared with', () => {
  const times = new TriggerTimes()
  times.compute(service(at(1)), [pod('a', at(9))])
  assert.equal(times.compute(service(at(1)), [pod('a', at(3))]), undefined)
  assert.equal(times.compute(service(at(1)), [pod('a', at(4))]), at(4))
})

test('a Service that was made anew while nobody looked counts as changed when it was made', () => {
  const times = new TriggerTimes()
  times.compute(service(at(1)), [])
  assert.equal(times.compute(service(at(7)), [pod('a', at(8))]), at(7))
})

test('times of other programs are compared as times and written as Go writes them', () => {
  const times = new TriggerTimes()
  assert.equal(times.compute(service('2026-01-01T01:00:01.250+01:00'), []), '2026-01-01T00:00:01.25Z')
  assert.equal(times.compute(service(at(1)), [pod('a', at(2)), pod('b', '2026-01-01T00:00:02.000Z')]), at(2))
  assert.equal(
    times.compute(service(at(1)), [pod('a', at(2)), pod('b', '2026-01-01T00:00:02.5Z')]),
    '2026-01-01T00:00:02.5Z',
  )
  assert.equal(times.compute(service(at(1)), [pod('a', at(2)), pod('b', at(2))]), undefined)
})

/** Upstream's tracker: all times are kept anew with each call. */
class Naive {
  #known: { readonly service: number; readonly pods: ReadonlyMap<string, number> } | undefined

  compute(created: number, pods: ReadonlyMap<string, number>): number | undefined {
    const known = this.#known
    this.#known = { service: created, pods }
    if (known === undefined) return created
    const changed = [...pods].filter(([name, time]) => time > (known.pods.get(name) ?? -1)).map(([, time]) => time)
    if (created > known.service) changed.push(created)
    return changed.length === 0 ? undefined : Math.min(...changed)
  }
}

test('in every history the times are those of a tracker that keeps all anew', () => {
  const second = fc.integer({ min: 0, max: 9 })
  const call = fc.record({
    created: second,
    pods: fc.uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), second), { selector: ([name]) => name }),
    forget: fc.integer({ min: 0, max: 9 }),
  })
  fc.assert(
    fc.property(fc.array(call, { maxLength: 12 }), (calls) => {
      const times = new TriggerTimes()
      let naive = new Naive()
      for (const { created, pods, forget } of calls) {
        if (forget === 0) {
          times.delete('ns/web')
          naive = new Naive()
        }
        const expected = naive.compute(created, new Map(pods))
        const ours = times.compute(
          service(at(created)),
          pods.map(([name, time]) => pod(name, at(time))),
        )
        assert.equal(ours, expected === undefined ? undefined : at(expected))
      }
    }),
    { numRuns: 500 },
  )
})
