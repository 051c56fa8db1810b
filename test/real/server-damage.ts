import { createServer } from 'node:https'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { endpoints, leases, services } from '../../src/kube/resources.ts'
import type { CheckId } from '../../src/verify/cluster/check-ids.ts'
import type { CertificateAuthority, CertificateRequest } from '../peers/certificates.ts'
import type { Owner } from '../peers/owner.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import { leaseOf, withTwoMasters } from '../verify/cluster/damage.ts'

const right = { commonName: 'kube-apiserver', ips: ['192.0.2.2'] } as const
const kubernetes = { namespace: 'default', name: 'kubernetes' } as const

/** The server that answers instead of the API server of the second master. */
export interface Front {
  readonly port: number
  /** Changes the behaviour from now on. With `hangs` it accepts connections and answers nothing. */
  behave(change: Partial<Behaviour>): void
  /** Restores the first behaviour. */
  repair(): void
}

interface Behaviour {
  readonly status: number
  readonly clockOffsetMs: number
  readonly certificate: CertificateRequest
  readonly hangs: boolean
}

const healthy: Behaviour = { status: 200, clockOffsetMs: 0, certificate: right, hangs: false }

export async function startFront(owner: Owner, authority: CertificateAuthority): Promise<Front> {
  let now = healthy
  const pair = ({ certificate: request }: Behaviour) => {
    const { certificate: cert, key } = authority.issue(request)
    return { cert, key }
  }
  const server = createServer(pair(now), (_request, response) => {
    if (now.hangs) return
    const date = new Date(Date.now() + now.clockOffsetMs).toUTCString()
    response.writeHead(now.status, { date }).end(now.status === 200 ? '[+]ping ok\n' : '[-]etcd failed: withheld\n')
  })
  const { port } = await listenOnLoopback(owner, server)
  const behave = (change: Partial<Behaviour>): void => {
    now = { ...now, ...change }
    server.setSecureContext(pair(now))
  }
  return { port, behave, repair: () => behave(healthy) }
}

/** Damage to the servers behind the list, or by its writers, which exactly one check must find. */
export interface ServerDamage {
  readonly name: string
  readonly check: CheckId
  inflict(world: ServerWorld): Promise<unknown>
  /** A repair by hand. Without it, the printed command repairs the damage. */
  readonly repairByHand?: (world: ServerWorld) => Promise<unknown>
}

export interface ServerWorld {
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly front: Front
  /** What stops the writers. */
  readonly stops: (() => Promise<void>)[]
}

const restoreFront = async ({ front }: ServerWorld): Promise<void> => front.repair()

/** Alternates two writes until the world's `stops` are called. The content of `away` is there for a moment only. */
function fight(away: (api: KubeApi) => Promise<unknown>, back: (api: KubeApi) => Promise<unknown>) {
  return async ({ api, stops }: ServerWorld): Promise<void> => {
    let isOver = false
    const fighting = (async () => {
      while (!isOver) {
        await away(api)
        await back(api)
        await new Promise((resolve) => setTimeout(resolve, 400))
      }
    })()
    stops.push(async () => {
      isOver = true
      await fighting
    })
  }
}

const stopWriters = ({ stops }: ServerWorld) => Promise.all(stops.splice(0).map((stop) => stop()))

function listed(addresses: readonly string[], fieldManager: string) {
  return async (api: KubeApi): Promise<unknown> => {
    const { subsets = [] } = await api.get(endpoints, kubernetes)
    const body = { subsets: subsets.map((subset) => ({ ...subset, addresses: addresses.map((ip) => ({ ip })) })) }
    return api.patch(endpoints, kubernetes, { type: 'merge', body }, { fieldManager })
  }
}

function familyPolicy(ipFamilyPolicy: string, fieldManager: string) {
  return (api: KubeApi): Promise<unknown> =>
    api.patch(services, kubernetes, { type: 'merge', body: { spec: { ipFamilyPolicy } } }, { fieldManager })
}

/** Makes the lease of the second master expire in some seconds; nobody renews it. */
async function endLease({ api }: ServerWorld): Promise<void> {
  const { metadata } = await leaseOf(api, '192.0.2.2')
  const renewTime = new Date().toISOString().replace('Z', '000Z')
  const body = { spec: { leaseDurationSeconds: 15, renewTime } }
  await api.patch(leases, { namespace: 'kube-system', name: metadata?.name ?? '' }, { type: 'merge', body })
}

const kinds: readonly ServerDamage[] = [
  {
    name: 'a listed server hangs, and its lease is not renewed',
    check: 'server-answers',
    async inflict(world) {
      world.front.behave({ hangs: true })
      await endLease(world)
    },
  },
  {
    name: 'a listed server hangs, and is started again',
    check: 'server-answers',
    inflict: async ({ front }) => front.behave({ hangs: true }),
    repairByHand: restoreFront,
  },
  {
    name: 'a certificate is for another address',
    check: 'server-certificate',
    inflict: async ({ front }) => front.behave({ certificate: { ...right, ips: ['192.0.2.3'] } }),
    repairByHand: restoreFront,
  },
  {
    name: 'a certificate has expired',
    check: 'server-certificate',
    inflict: async ({ front }) => front.behave({ certificate: { ...right, validForMs: -3_600_000 } }),
    repairByHand: restoreFront,
  },
  {
    name: 'a server has lost its etcd',
    check: 'server-ready',
    inflict: async ({ front }) => front.behave({ status: 500 }),
    repairByHand: restoreFront,
  },
  {
    name: 'a server is overloaded',
    check: 'server-ready',
    inflict: async ({ front }) => front.behave({ status: 503 }),
    repairByHand: restoreFront,
  },
  {
    name: 'the clock of a server is ahead',
    check: 'clock-skew',
    inflict: async ({ front }) => front.behave({ clockOffsetMs: 45_000 }),
    repairByHand: restoreFront,
  },
  {
    name: 'a lease was renewed in the future',
    check: 'clock-skew',
    async inflict({ api }) {
      const { metadata } = await leaseOf(api, '192.0.2.2')
      const renewTime = new Date(Date.now() + 60_000).toISOString().replace('Z', '000Z')
      const ref = { namespace: 'kube-system', name: metadata?.name ?? '' }
      await api.patch(leases, ref, { type: 'merge', body: { spec: { renewTime } } })
    },
    async repairByHand({ api }) {
      const { metadata } = await leaseOf(api, '192.0.2.2')
      const renewTime = new Date().toISOString().replace('Z', '000Z')
      const ref = { namespace: 'kube-system', name: metadata?.name ?? '' }
      await api.patch(leases, ref, { type: 'merge', body: { spec: { renewTime } } })
    },
  },
  {
    name: 'two writers overwrite the Endpoints',
    check: 'single-writer',
    inflict: fight(listed(['192.0.2.1'], 'one'), listed(['192.0.2.1', '192.0.2.2'], 'two')),
    repairByHand: stopWriters,
  },
  {
    name: 'two writers overwrite the Service',
    check: 'single-writer',
    inflict: fight(familyPolicy('PreferDualStack', 'one'), familyPolicy('SingleStack', 'two')),
    repairByHand: stopWriters,
  },
]

/** Needs two masters with leases, 192.0.2.1 and 192.0.2.2, of which `front` is the second. */
export const serverDamages: readonly ServerDamage[] = kinds.map((one) => ({
  ...one,
  async inflict(world: ServerWorld) {
    world.front.repair()
    await withTwoMasters(world.api)
    return one.inflict(world)
  },
}))
