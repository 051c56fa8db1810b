import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Change } from '../../src/kube/informer.ts'
import type { Pod, Service } from '../../src/kube/resources.ts'
import { keyOfObject } from '../../src/kube/store.ts'
import { followPodsAndServices } from './followed.ts'

type Labels = Readonly<Record<string, string>>
type Ref = { readonly namespace: string; readonly name: string }
type Put<T> = { readonly put: T }
type Edit<T> = Put<T> | { readonly delete: Ref }
type Step =
  | { readonly pods: readonly Edit<Pod>[]; readonly relist: boolean }
  | { readonly services: readonly Edit<Service>[]; readonly relist: boolean }

const ref = (names: readonly string[]): fc.Arbitrary<Ref> =>
  fc.record({ namespace: fc.constantFrom('one', 'two'), name: fc.constantFrom(...names) })
const labels: fc.Arbitrary<Labels> = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'))
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 8 })

const pod = fc
  .record({
    ref: ref(['p', 'q', 'r', 's', 't']),
    labels: optional(labels),
    ready: fc.constantFrom('True', 'False'),
    phase: fc.constantFrom('Running', 'Failed'),
    leaving: fc.integer({ min: 0, max: 5 }),
    ips: fc.uniqueArray(fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1'), { maxLength: 2 }),
  })
  .map(
    ({ ref, labels, ready, phase, leaving, ips }): Pod => ({
      metadata: {
        ...ref,
        ...(labels && { labels }),
        ...(leaving === 0 && { deletionTimestamp: '2026-01-01T00:00:00Z' }),
      },
      status: { phase, conditions: [{ type: 'Ready', status: ready }], podIPs: ips.map((ip) => ({ ip })) },
    }),
  )
const service = fc
  .record({ ref: ref(['u', 'v', 'w', 'x']), selector: optional(labels), external: fc.integer({ min: 0, max: 9 }) })
  .map(
    ({ ref, selector, external }): Service => ({
      metadata: ref,
      spec: { type: external === 0 ? 'ExternalName' : 'ClusterIP', ...(selector && { selector }) },
    }),
  )

const edits = <T>(object: fc.Arbitrary<T>, refs: fc.Arbitrary<Ref>): fc.Arbitrary<readonly Edit<T>[]> => {
  const put = object.map((put) => ({ put }))
  const drop = refs.map((ref) => ({ delete: ref }))
  return fc.array(fc.oneof({ weight: 3, arbitrary: put }, { weight: 1, arbitrary: drop }), {
    minLength: 1,
    maxLength: 6,
  })
}
const relist = fc.integer({ min: 0, max: 3 }).map((number) => number === 0)
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ pods: edits(pod, ref(['p', 'q', 'r', 's', 't'])), relist }),
  fc.record({ services: edits(service, ref(['u', 'v', 'w', 'x'])), relist }),
)

/**
 * Upstream's algorithm, word for word and as slow: it tries every Service for every Pod. Only the phase is this
 * project's addition.
 */
class Naive {
  readonly pods = new Map<string, Pod>()
  readonly services = new Map<string, Service>()

  take<T extends Pod | Service>(objects: Map<string, T>, change: Change<T>): void {
    if (change.type === 'deleted') objects.delete(keyOfObject(change.old))
    else objects.set(keyOfObject(change.object), change.object)
  }

  membersOf(service: Service): readonly Pod[] {
    return [...this.pods.values()].filter((pod) => selects(service, pod))
  }

  /** GetPodUpdateProjectionKey and GetServicesToUpdate. */
  servicesToUpdate(change: Change<Pod>): ReadonlySet<string> {
    if (change.type === 'added') return this.#servicesOf(change.object)
    if (change.type === 'deleted') return this.#servicesOf(change.old)
    const { old, object } = change
    const podChanged = endpointOf(old) !== endpointOf(object) || object.metadata?.deletionTimestamp !== undefined
    const [a, b] = [old.metadata?.labels, object.metadata?.labels]
    const labelsChanged =
      JSON.stringify(Object.entries(a ?? {}).sort()) !== JSON.stringify(Object.entries(b ?? {}).sort())
    const now = this.#servicesOf(object)
    if (!labelsChanged) return podChanged ? now : new Set()
    if (a === undefined || Object.keys(a).length === 0) return now
    const before = this.#servicesOf(old)
    const both = [...before, ...now]
    return new Set(podChanged ? both : both.filter((key) => !before.has(key) || !now.has(key)))
  }

  #servicesOf(pod: Pod): ReadonlySet<string> {
    return new Set([...this.services.values()].filter((service) => selects(service, pod)).map(keyOfObject))
  }
}

function selects(service: Service, pod: Pod): boolean {
  const { type, selector } = service.spec ?? {}
  if (type === 'ExternalName' || selector === undefined) return false
  if (service.metadata?.namespace !== pod.metadata?.namespace) return false
  return Object.entries(selector).every(([key, value]) => pod.metadata?.labels?.[key] === value)
}

function endpointOf({ metadata, status }: Pod): string {
  return JSON.stringify([metadata?.deletionTimestamp, status?.conditions?.[0]?.status, status?.phase, status?.podIPs])
}

test('for any changes of Pods and Services the members and reports equal those of a naive comparison of all pairs', async (t) => {
  let reported = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }), async (steps) => {
      const world = await followPodsAndServices(t)
      const naive = new Naive()
      const keys: string[] = []
      world.members.subscribe((key) => keys.push(key))
      const check = (expected: ReadonlySet<string>): void => {
        assert.deepEqual(keys.splice(0).sort(), [...expected].sort())
        reported += expected.size
        for (const each of naive.services.values()) {
          assert.deepEqual(new Set(world.members.podsOf(each)), new Set(naive.membersOf(each)))
        }
      }
      world.services.informer.subscribe((change) => {
        naive.take(naive.services, change)
        check(new Set())
      })
      world.pods.informer.subscribe((change) => {
        naive.take(naive.pods, change)
        check(naive.servicesToUpdate(change))
      })
      for (const step of steps) {
        if ('pods' in step) await play(world.pods, step.pods, step.relist)
        else await play(world.services, step.services, step.relist)
      }
      assert.equal(naive.pods.size, world.pods.objects.length)
      assert.equal(naive.services.size, world.services.objects.length)
      await world.end()
    }),
    { numRuns: 250 },
  )
  assert.ok(reported > 1000, `only ${reported} keys were reported`)
})

interface Objects<T> {
  put(object: T): Promise<void>
  delete(key: string): Promise<void>
  store(object: T): void
  remove(key: string): void
  relist(): Promise<void>
}

/** Sends an event for each edit. With `relist`, makes all edits without events, and then relists. */
async function play<T extends Pod | Service>(
  objects: Objects<T>,
  edits: readonly Edit<T>[],
  relist: boolean,
): Promise<void> {
  for (const edit of edits) {
    if ('put' in edit) await (relist ? objects.store(edit.put) : objects.put(edit.put))
    else {
      const key = keyOfObject({ metadata: edit.delete })
      await (relist ? objects.remove(key) : objects.delete(key))
    }
  }
  if (relist) await objects.relist()
}
