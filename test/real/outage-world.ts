import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seededRandom } from '../../src/runtime/random.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { type Etcd, leaderOf, startEtcdCluster } from '../peers/etcd.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { type Judgement, judgeVersions, listKeys } from '../peers/listing-judge.ts'
import type { Owner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { storeValue } from '../peers/stored-values.ts'
import { type FollowedKeys, followKeys } from '../peers/stored-versions.ts'
import { untilPasses } from '../peers/until.ts'

/** What is away, and how. Each kind that leaves the API servers alive leaves every master alive. */
export type OutageKind =
  | 'etcd killed'
  | 'etcd frozen'
  | 'etcd full'
  | 'etcd leader moved'
  | 'etcd leader killed'
  | 'servers killed'
  | 'servers frozen'

export interface Outage {
  readonly kind: OutageKind
  readonly lengthMs: number
}

export interface OutageWorld {
  readonly members: readonly Etcd[]
  readonly servers: readonly Apiserver[]
  readonly masters: readonly Program[]
  readonly followed: FollowedKeys
  readonly timings: LeaseTimings
  readonly random: Random
  /**
   * Whether the API server of an address was up at a time. A killed server counts as up again only after the time that
   * it needs to be listed.
   */
  lives(address: string, atMs: number): boolean
  /** A server is dead from now on. */
  died(index: number): void
  /** It is ready again. */
  isBack(index: number): void
}

export interface LeaseTimings {
  readonly ttlMs: number
  readonly intervalMs: number
}

export interface OutageResult extends Judgement {
  readonly outage: Outage
  /** Whether default/kubernetes was right in the end. */
  readonly right: boolean
}

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
const port = 6443
/** The time from when a server that was dead is ready until its master must be listed. */
const joinMs = 10_000
const rightWithinMs = 60_000
/** Enough for what a test stores, and small enough that filling it costs hardly any memory. */
const quotaBytes = 64 * 2 ** 20

/**
 * Starts three real kube-apiservers on one etcd, or on a cluster of three members. Beside each runs a sidecar that
 * stores its leases there.
 */
export async function startOutageWorld(
  owner: Owner,
  { size, timings, seed }: { readonly size: 1 | 3; readonly timings: LeaseTimings; readonly seed: number },
): Promise<OutageWorld> {
  const members = await startEtcdCluster(owner, size, { flags: [`--quota-backend-bytes=${quotaBytes}`] })
  const etcd = { url: members.map(({ url }) => url).join(',') }
  const servers = await Promise.all(
    addresses.map((advertiseAddress) => startApiserver(owner, { kind: 'bare', etcd, advertiseAddress })),
  )
  const flags = [
    `--etcd-servers=${etcd.url}`,
    `--lease-ttl=${timings.ttlMs}ms`,
    `--reconcile-interval=${timings.intervalMs}ms`,
  ]
  const masters = await Promise.all(
    servers.map((server, index) =>
      startMaster(owner, server, {
        address: addresses[index] as string,
        host: `host-${index + 1}`,
        securePort: port,
        flags,
      }),
    ),
  )
  await whenRight((servers[0] as Apiserver).api, { addresses, port }, rightWithinMs)
  const deaths = addresses.map((): { readonly fromMs: number; toMs: number }[] => [])
  return {
    members,
    servers,
    masters,
    followed: await followKeys(owner, members, Object.values(listKeys())),
    timings,
    random: seededRandom(seed, 'outages'),
    lives: (address, atMs) =>
      (deaths[addresses.indexOf(address as (typeof addresses)[number])] ?? []).every(
        ({ fromMs, toMs }) => atMs < fromMs || atMs > toMs,
      ),
    died: (index) => void deaths[index]?.push({ fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY }),
    isBack(index) {
      const last = deaths[index]?.at(-1)
      if (last !== undefined) last.toMs = performance.now() + joinMs
    },
  }
}

/**
 * Causes one outage, at a random moment of a steady fleet's interval, and judges every version of the list from before
 * the outage on.
 */
export async function haveOutage(world: OutageWorld, outage: Outage): Promise<OutageResult> {
  const { followed, timings, random, masters, servers } = world
  // Long enough that every lease is renewed after the last outage.
  await sleep(timings.intervalMs * (1 + random.next()))
  await followed.caughtUp()
  const since = followed.versions.length
  await during[outage.kind](world, () => sleep(outage.lengthMs))
  // What was reported during the outage takes effect at most one TTL later.
  await sleep(timings.ttlMs)
  const right = await whenRight((servers[0] as Apiserver).api, { addresses, port }, rightWithinMs).then(
    () => true,
    () => false,
  )
  await followed.caughtUp()
  for (const master of masters) master.assertRunning()
  return { outage, right, ...judgeVersions(followed.versions, since, addresses, world.lives) }
}

type Lasting = () => Promise<void>

/** How each kind begins, lasts and ends. */
const during: Readonly<Record<OutageKind, (world: OutageWorld, lasting: Lasting) => Promise<void>>> = {
  async 'etcd killed'({ members }, lasting) {
    await Promise.all(members.map((member) => member.kill()))
    await lasting()
    await Promise.all(members.map((member) => member.start()))
  },
  async 'etcd frozen'({ members }, lasting) {
    for (const member of members) member.pause()
    await lasting()
    for (const member of members) member.resume()
  },
  async 'etcd full'({ members, followed }, lasting) {
    const [member] = members as [Etcd]
    await fillUp(member)
    await lasting()
    await followed.caughtUp()
    await makeRoom(member)
  },
  async 'etcd leader moved'({ members }, lasting) {
    const leader = await leaderOf(members)
    const other = members.find((member) => member !== leader) as Etcd
    const { header } = (await other.call('/v3/maintenance/status')) as { header: { member_id: string } }
    await leader.call('/v3/maintenance/transfer-leadership', { targetID: header.member_id })
    await lasting()
  },
  async 'etcd leader killed'({ members }, lasting) {
    const leader = await leaderOf(members)
    await leader.kill()
    await lasting()
    await leader.start()
  },
  async 'servers killed'(world, lasting) {
    for (const index of world.servers.keys()) world.died(index)
    await Promise.all(world.servers.map((server) => server.kill()))
    await lasting()
    await Promise.all(
      world.servers.map(async (server, index) => {
        await server.start()
        world.isBack(index)
      }),
    )
  },
  async 'servers frozen'({ servers }, lasting) {
    for (const server of servers) server.pause()
    await lasting()
    for (const server of servers) server.resume()
  },
}

async function fillUp(member: Etcd): Promise<void> {
  const block = Buffer.alloc(1_000_000)
  for (let index = 0; index < (2 * quotaBytes) / block.length; index++) {
    const full = await storeValue(member, `/fill/${index}`, block).then(
      () => false,
      (error: unknown) => /database space exceeded/.test(String(error)) || Promise.reject(error),
    )
    if (full) return
  }
  assert.fail('etcd takes more than its quota')
}

async function makeRoom(member: Etcd): Promise<void> {
  await member.deletePrefix('/fill/')
  const { header } = (await member.call('/v3/maintenance/status')) as { header: { revision: string } }
  await member.compact(BigInt(header.revision))
  await member.call('/v3/maintenance/defragment')
  const { alarms } = (await member.call('/v3/maintenance/alarm', { action: 'GET' })) as { alarms: object[] }
  for (const alarm of alarms) await member.call('/v3/maintenance/alarm', { ...alarm, action: 'DEACTIVATE' })
  await untilPasses('etcd to take writes', () => storeValue(member, '/room', Buffer.from('yes')), { withinMs: 10_000 })
}
