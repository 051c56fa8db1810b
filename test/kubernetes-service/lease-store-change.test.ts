import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { MasterSettings } from '../../src/config/master-options.ts'
import { endpoints, type Lease, leases } from '../../src/kube/resources.ts'
import { addressesIn } from '../../src/kubernetes-service/identity.ts'
import { OtherWritersWorld, type RunningMaster } from './other-writers-world.ts'

const page = readFileSync('docs/lease-stores.md', 'utf8')
const numbers = [1, 2, 3]
const addresses = numbers.map((number) => `192.0.2.${number}`)
const { signal } = new AbortController()

/** The code block of the page in this language, for one address. */
function placeholder(language: string, address: string): string {
  const text = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(page)?.[1]
  assert.ok(text !== undefined, language)
  return text.replaceAll('192.0.2.1', address).replaceAll('192-0-2-1', address.replaceAll('.', '-'))
}

const stores = {
  kubernetes: {
    settings: { leaseStore: 'kubernetes' },
    async prepare(world: OtherWritersWorld) {
      const api = world.connect('kubectl')
      for (const address of addresses) await api.create(leases, JSON.parse(placeholder('json', address)) as Lease)
    },
  },
  etcd: {
    settings: { etcdServers: 'http://127.0.0.1:2379', leaseStore: 'etcd' },
    async prepare(world: OtherWritersWorld) {
      const etcd = world.etcd.client()
      const value = (address: string) => /masterleases\/\S+ '([^']*)'/.exec(placeholder('sh', address))?.[1] ?? ''
      const lease = (await etcd.grantLease(600, signal)).id
      for (const address of addresses) {
        await etcd.create(`/registry/masterleases/${address}`, Buffer.from(value(address)), { lease, signal })
      }
    },
  },
} satisfies Record<string, { settings: Partial<MasterSettings>; prepare(world: OtherWritersWorld): Promise<void> }>

async function change(t: { after(undo: () => Promise<void>): void }, from: keyof typeof stores, prepared: boolean) {
  const to = from === 'etcd' ? 'kubernetes' : 'etcd'
  const world = new OtherWritersWorld(t)
  const { time } = world
  const start = (store: keyof typeof stores): readonly RunningMaster[] =>
    numbers.map((number) => world.start(number, { ...stores[store].settings, onShutdown: 'keep' }))
  const before = start(from)
  await time.advance(15_000)
  assert.deepEqual([...(await world.listed())].sort(), addresses)
  const seen = await world.follow(endpoints, (object) => addresses.every((each) => addressesIn(object).includes(each)))

  if (prepared) await stores[to].prepare(world)
  for (const master of before) master.stop()
  await time.advance(20_000)
  const after: RunningMaster[] = []
  /** The list half a minute after the start of each master. */
  const lists: (readonly string[])[] = []
  for (const number of numbers) {
    after.push(world.start(number, stores[to].settings))
    await time.advance(30_000)
    lists.push([...(await world.listed())].sort())
  }
  // The placeholders expire. A master that was listed only because of one would now be removed.
  await time.advance(700_000)
  assert.deepEqual([...(await world.listed())].sort(), addresses)
  return { seen, after, lists, world }
}

for (const from of ['kubernetes', 'etcd'] as const) {
  test(`every master stays listed while the lease store changes from ${from} as docs/lease-stores.md describes`, async (t) => {
    const { seen, after, world } = await change(t, from, true)
    assert.deepEqual(
      seen.filter(({ right }) => !right),
      [],
    )
    assert.deepEqual(
      after.flatMap((master) => master.logged(/another lease store|keeps overwriting/)),
      [],
    )
    // A dead master is removed as usual.
    after[2]?.stop()
    await world.time.advance(1_000)
    assert.deepEqual([...(await world.listed())].sort(), addresses.slice(0, 2))
  })
}

for (const from of ['kubernetes', 'etcd'] as const) {
  test(`without placeholders the list of the store after ${from} has only the masters that have started`, async (t) => {
    const { lists } = await change(t, from, false)
    assert.deepEqual(lists, [addresses.slice(0, 1), addresses.slice(0, 2), addresses])
  })
}
