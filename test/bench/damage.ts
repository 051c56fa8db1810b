import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { type Damage, damages, wrongFor } from '../peers/damage.ts'
import {
  type Expected,
  paths,
  type ServiceState,
  type Transition,
  watchState,
  whenRight,
} from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { median, type Report, shown } from './report.ts'

const address = '192.0.2.1'
const spacingMs = 1200
/** A stock server reconciles every ten seconds: what is wrong after that stays wrong. */
const neverMs = 12_000

interface Subject {
  readonly server: Apiserver
  readonly expected: Expected
  readonly history: readonly Transition[]
  readonly undamaged: ServiceState
}

/** How long a watcher sees each damage, compared with a stock kube-apiserver that runs its own lease reconciler. */
export async function measureDamage({ rounds }: { readonly rounds: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const ours = await startSubject(owner, 'bare')
    const stock = await startSubject(owner, 'stock')
    const rows: (readonly string[])[] = []
    const all: number[] = []
    for (const damage of damages) {
      // In parallel: while the stock server waits for its tick, the server beside this program is damaged again and
      // again.
      const [times, peer] = await Promise.all([timeRounds(ours, damage, rounds), timeOnce(stock, damage)])
      await restore(stock)
      all.push(...times)
      rows.push([
        damage.name,
        shown(median(times)),
        shown(Math.max(...times)),
        Number.isNaN(peer) ? 'never' : shown(peer),
      ])
      console.error(`damage: ${rows.at(-1)?.join(', ')}`)
    }
    return {
      title: 'Damage',
      method:
        `Each damage ${rounds} times at ${spacingMs / 1000} s spacing, and once on a stock kube-apiserver at the same time. Milliseconds from when a watcher ` +
        `sees the damage until it sees the final correction; "never": not within ${neverMs / 1000} s.`,
      header: ['ms', 'median', 'most', 'stock kube-apiserver'],
      rows,
      bounds: [
        { name: 'median of all', value: median(all), limit: 100, unit: 'ms' },
        {
          name: 'median of the slowest kind',
          value: Math.max(...rows.map(([, value]) => Number(value))),
          limit: 100,
          unit: 'ms',
        },
        { name: 'most', value: Math.max(...all), limit: 1000, unit: 'ms' },
      ],
    }
  } finally {
    await owner.close()
  }
}

async function startSubject(owner: Owner, kind: 'bare' | 'stock'): Promise<Subject> {
  const { server } = await startCluster(owner, { kind, advertiseAddress: address })
  if (kind === 'bare') await startMaster(owner, server, { address })
  const expected = { addresses: [address], port: server.port }
  const undamaged = await whenRight(server.api, expected, 60_000)
  return { server, expected, undamaged, ...(await watchState(owner, server.api)) }
}

async function timeRounds(subject: Subject, damage: Damage, rounds: number): Promise<readonly number[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const nextAt = performance.now() + spacingMs
    times.push(await time(subject, damage, 10_000))
    await sleep(Math.max(0, nextAt - performance.now()))
  }
  return times
}

/** NaN if the damage is not corrected at all. */
function timeOnce(subject: Subject, damage: Damage): Promise<number> {
  return time(subject, damage, neverMs).catch(() => Number.NaN)
}

async function time({ server, expected, history }: Subject, damage: Damage, withinMs: number): Promise<number> {
  const since = history.length
  await damage.apply(server.api)
  return wrongFor(history, since, expected, { withinMs })
}

/** Restores the objects by hand where the server does not. */
async function restore({ server, expected, undamaged }: Subject): Promise<void> {
  const unchanged = {
    [paths.service]: undamaged.service,
    [paths.endpoints]: undamaged.endpoints,
    [paths.slice]: undamaged.slices[0],
  }
  for (const [path, object] of Object.entries(unchanged)) {
    const live = await server.api.find<typeof object>(path)
    if (live === undefined || object === undefined) continue
    const { resourceVersion, uid } = live.metadata ?? {}
    await server.api.update(path, { ...object, metadata: { ...object.metadata, resourceVersion, uid } })
  }
  await whenRight(server.api, expected, neverMs)
}
