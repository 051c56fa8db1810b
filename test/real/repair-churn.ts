import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../../src/kube/resources.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import {
  addressesOf,
  allocationPaths,
  createServices,
  ipAddressPrefix,
  portsOf,
  serviceNamed,
  whenAllocated,
} from '../peers/allocations.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { whenReady } from '../peers/program-health.ts'
import { changeRange, numberIn, type StoredRangeName, storedRange } from '../peers/stored-ranges.ts'
import { removeValue } from '../peers/stored-values.ts'
import { testSeed } from '../support/test-seed.ts'
import { followAllocations, wronglyFreed } from './allocation-history.ts'

const withinMs = 30_000
// The churn lasts until there are enough interleavings, however slow the machine is.
const leastMs = 10_000
const mostMs = 60_000
const workers = 8
const enoughInterleavings = 60
/** Even a machine that is so slow that it needs the longest time must show this many. */
const leastInterleavings = 20
// Wide: a port whose bit is removed here is free for a moment, and the server then seldom gives it to the next Service.
const nodePorts = '10000-65535'
/** By chance, one port in ten runs is given twice. */
const mostGivenTwice = 3
const path = (name: string): string => `${allocationPaths.services}/${name}`

/** The existing Services, with what each was given when it was created. */
class Living {
  /** How many Services were created, including those that are gone. */
  made = 0
  readonly #held = new Map<string, { readonly uid: string; readonly holds: string }>()

  get names(): readonly string[] {
    return [...this.#held.keys()]
  }

  add(service: Service): void {
    const { name = '', uid = '' } = service.metadata ?? {}
    this.#held.set(name, { uid, holds: holdsOf(service) })
  }

  remove(name: string): void {
    this.#held.delete(name)
  }

  /** Asserts that the Service is still the one that was created, with the same addresses and ports. */
  assertSame(service: Service): void {
    const known = this.#held.get(service.metadata?.name ?? '')
    if (known === undefined) return
    assert.equal(service.metadata?.uid, known.uid)
    assert.equal(holdsOf(service), known.holds)
  }
}

function holdsOf(service: Service): string {
  return `${addressesOf(service)} ${portsOf(service)}`
}

const random = seededRandom(testSeed(), 'churn')

function any<T>(of: readonly T[]): T | undefined {
  return of[Math.floor(random.next() * of.length)]
}

/** Creates Services and deletes them, some at once, some after other things have happened to them. */
async function work(api: ApiClient, living: Living, worker: number, isOver: () => boolean): Promise<void> {
  let made = 0
  const mine: string[] = []
  while (!isOver()) {
    const name = `w${worker}-${made}`
    const spec = random.next() < 0.6 ? { type: 'NodePort' } : {}
    const created = await api.create<Service>(allocationPaths.services, serviceNamed(name, spec))
    living.add(created)
    mine.push(name)
    made += 1
    living.made += 1
    if (random.next() < 0.5) await sleep(random.next() * 60)
    while (mine.length > 12 || (mine.length > 0 && random.next() < 0.5)) {
      const [gone] = mine.splice(Math.floor(random.next() * mine.length), 1) as [string]
      const service = await api.get<Service>(path(gone))
      living.assertSame(service)
      living.remove(gone)
      await api.delete(path(gone))
    }
  }
}

/** What was taken from living Services, and at which revisions of etcd. */
interface Damages {
  taken: number
  readonly revisions: Set<number>
}

/** Takes from some living Services what they were given: their IPAddresses, or their bits. */
async function damage({ etcd, server }: Cluster, living: Living, damages: Damages): Promise<void> {
  const names = new Set(Array.from({ length: 8 }, () => any(living.names)))
  const found = await Promise.all([...names].map((name) => server.api.find<Service>(path(name ?? 'none'))))
  const victims = found.filter((service) => service !== undefined)
  const takeBits = async (name: StoredRangeName, items: readonly (string | number)[]): Promise<void> => {
    const stored = await storedRange(etcd, name)
    if (stored === undefined || items.length === 0) return
    const numbers = items.map((item) => numberIn(stored, item))
    damages.revisions.add(
      await changeRange(etcd, name, (taken) => {
        for (const number of numbers) taken.delete(number)
      }),
    )
    damages.taken += items.length
  }
  if (random.next() < 0.5) {
    await takeBits('servicenodeports', victims.flatMap(portsOf))
    return
  }
  const addresses = victims.flatMap(addressesOf)
  await takeBits('serviceips', addresses)
  for (const ip of addresses) {
    const revision = await removeValue(etcd, `${ipAddressPrefix}${ip}`)
    if (revision === undefined) continue
    damages.revisions.add(revision)
    damages.taken += 1
  }
}

/**
 * Declares the test: clients create and delete Services, which lose what they hold, while two programs repair it. 1.32
 * stores ClusterIPs in a bitmap, later versions in IPAddresses. With `untilFreed` it waits for minutes until no bit is
 * left that no Service holds.
 */
export function testChurn(kind: 'bare' | 'bare-1.32', { untilFreed = false } = {}): void {
  const what = kind === 'bare' ? 'IPAddresses and NodePort bits' : 'bits of both bitmaps'
  const freed = untilFreed ? ', and what none holds is freed' : ''
  test(`no Service loses its addresses or ports during churn in which ${what} are lost${freed}`, async (t) => {
    const owner = openOwner(t)
    const cluster = await startCluster(owner, { kind, flags: [`--service-node-port-range=${nodePorts}`] })
    const { etcd, server } = cluster
    const flags = [`--etcd-servers=${etcd.url}`, `--service-node-port-range=${nodePorts}`, '--repair-interval=2s']
    const masters = await Promise.all(
      ['192.0.2.1', '192.0.2.2'].map((address) => startMaster(owner, server, { address, host: address, flags })),
    )
    for (const master of masters) await whenReady(master, withinMs)
    const living = new Living()
    for (const service of await createServices(server.api, 'lasting', 20, { type: 'NodePort' })) living.add(service)

    const history = await followAllocations(owner, cluster)
    const startedAt = performance.now()
    const damages: Damages = { taken: 0, revisions: new Set() }
    const isOver = (): boolean => {
      const lastedMs = performance.now() - startedAt
      const enough = Math.min(damages.taken, living.made) >= enoughInterleavings
      return lastedMs > mostMs || (lastedMs > leastMs && enough)
    }
    const damaging = async (): Promise<void> => {
      while (!isOver()) {
        await damage(cluster, living, damages)
        await sleep(random.next() * 50)
      }
    }
    const working = Array.from({ length: workers }, (_, worker) => work(server.api, living, worker, isOver))
    await Promise.all([...working, damaging()])
    const total = living.made
    t.diagnostic(
      `${total} Services made, ${damages.taken} addresses and ports taken in ${Math.round((performance.now() - startedAt) / 1000)} s`,
    )
    assert.ok(damages.taken >= leastInterleavings, `${damages.taken} damages`)
    assert.ok(total >= leastInterleavings, `${total} Services`)

    // Bits that no Service holds are freed after two minutes, IPAddresses that refer to no Service after one.
    const { services } = await whenAllocated(cluster, untilFreed ? 200_000 : 75_000, { mayLeak: !untilFreed })
    const names = new Set(services.map(({ metadata }) => metadata?.name))
    for (const service of services) living.assertSame(service)
    assert.deepEqual(
      living.names.filter((name) => !names.has(name)),
      [],
    )
    const steps = await history.steps()
    assert.ok(steps.length > total * 2, `${steps.length} steps`)
    const { wrong, givenTwice } = wronglyFreed(steps, damages.revisions)
    assert.deepEqual(wrong, [])
    assert.ok(givenTwice.length <= mostGivenTwice, givenTwice.join(', '))
    for (const master of masters) {
      master.assertRunning()
      assert.equal(master.logged(/"level":"error"/).length, 0)
    }
  })
}
