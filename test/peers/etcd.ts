import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './binaries.ts'
import type { CertificateAuthority } from './certificates.ts'
import { dataDirectory, type Owner, temporaryDirectory } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

/** An etcd member on loopback. */
export interface Etcd {
  /** For clients. */
  readonly url: string
  /** Of `url`. */
  readonly port: number
  /** For the harness, without TLS; equal to `url` if that has no TLS. */
  readonly plainUrl: string
  readonly process: RunningProcess
  /** SIGKILL; the data stays. */
  kill(): Promise<void>
  /** Starts it again on the same data and port, and waits until it accepts requests. */
  start(): Promise<void>
  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void
  resume(): void
  /** Removes every key that begins with `prefix`. */
  deletePrefix(prefix: string): Promise<void>
  /** Discards what was stored before a revision. Resolves when it is removed from the disk too. */
  compact(revision: bigint): Promise<void>
  /**
   * Calls a path of etcd's own JSON gateway, such as `/v3/maintenance/status`, without TLS, as the user of a `token`.
   * Rejects when etcd refuses.
   */
  call(path: string, body?: unknown, token?: string): Promise<unknown>
}

export interface EtcdOptions {
  /** Clients must have a certificate of this authority, which certifies the server too. */
  readonly authority?: CertificateAuthority
  readonly flags?: readonly string[]
  /** For gigabytes of data, which would otherwise be in memory. */
  readonly onDisk?: boolean
}

/** Where a member listens. */
interface Place {
  readonly name: string
  readonly directory: string
  readonly clientPort: number
  /** For the harness, without TLS. */
  readonly plainUrl: string
  readonly peerUrl: string
  readonly healthUrl: string
}

const readyWithinMs = 60_000

/** A single member. */
export async function startEtcd(owner: Owner, options: EtcdOptions = {}): Promise<Etcd> {
  const [member] = await startEtcdCluster(owner, 1, options)
  return member as Etcd
}

/** Members of one cluster, all ready. */
export function startEtcdCluster(owner: Owner, size: number, options: EtcdOptions = {}): Promise<readonly Etcd[]> {
  return startOnFreePorts(async () => {
    // A new directory for each attempt: with that of an earlier one, the members would try to reach each other at their
    // old ports.
    const directory = options.onDisk ? temporaryDirectory(owner, 'etcd') : dataDirectory(owner, 'etcd')
    const places: Place[] = []
    for (let index = 0; index < size; index++) {
      const clientPort = await freePort()
      places.push({
        name: `member-${index}`,
        directory,
        clientPort,
        plainUrl: `http://127.0.0.1:${options.authority === undefined ? clientPort : await freePort()}`,
        peerUrl: `http://127.0.0.1:${await freePort()}`,
        healthUrl: `http://127.0.0.1:${await freePort()}`,
      })
    }
    // No member is ready before most members have started.
    const members = await Promise.allSettled(places.map((place) => startMember(owner, place, places, options)))
    const started = members.flatMap((member) => (member.status === 'fulfilled' ? [member.value] : []))
    const failures = members.flatMap((member) => (member.status === 'rejected' ? [member.reason] : []))
    if (failures.length > 0) {
      await Promise.all(started.map((member) => member.kill()))
      // A member that ended may be the reason why the others were not ready.
      throw new AggregateError(failures, failures.map(String).join('\n'))
    }
    return started
  })
}

/** The leader. Rejects while there is none. */
export async function leaderOf(members: readonly Etcd[]): Promise<Etcd> {
  for (const member of members) {
    if (member.process.exit !== undefined) continue
    const status = (await member.call('/v3/maintenance/status')) as { leader?: string; header: { member_id: string } }
    if (status.leader === status.header.member_id) return member
  }
  throw new Error('no member leads')
}

async function startMember(owner: Owner, place: Place, places: readonly Place[], options: EtcdOptions): Promise<Etcd> {
  const url = `${options.authority === undefined ? 'http' : 'https'}://127.0.0.1:${place.clientPort}`
  let running = await launch(owner, place, places, url, options)
  const call = async (path: string, body: unknown = {}, token?: string): Promise<unknown> => {
    const response = await post(`${place.plainUrl}${path}`, body, token)
    const answer = await response.text()
    if (!response.ok) throw new Error(`etcd refused ${path}: ${answer}`)
    return JSON.parse(answer)
  }
  return {
    url,
    port: place.clientPort,
    plainUrl: place.plainUrl,
    get process() {
      return running
    },
    kill: () => running.kill(),
    async start() {
      running = await launch(owner, place, places, url, options)
    },
    pause: () => running.signal('SIGSTOP'),
    resume: () => running.signal('SIGCONT'),
    async deletePrefix(prefix) {
      const end = Buffer.from(prefix)
      end[end.length - 1] = (end.at(-1) as number) + 1
      const key = Buffer.from(prefix).toString('base64')
      await call('/v3/kv/deleterange', { key, range_end: end.toString('base64') })
    },
    async compact(revision) {
      await call('/v3/kv/compaction', { revision: `${revision}`, physical: true })
    },
    call,
  }
}

async function launch(
  owner: Owner,
  place: Place,
  places: readonly Place[],
  url: string,
  options: EtcdOptions,
): Promise<RunningProcess> {
  const running = await RunningProcess.start(owner, {
    name: 'etcd',
    command: binary('etcd'),
    args: [
      `--name=${place.name}`,
      `--data-dir=${join(place.directory, place.name)}`,
      `--listen-client-urls=${[...new Set([url, place.plainUrl])].join(',')}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${place.peerUrl}`,
      `--initial-advertise-peer-urls=${place.peerUrl}`,
      `--initial-cluster=${places.map(({ name, peerUrl }) => `${name}=${peerUrl}`).join(',')}`,
      `--listen-metrics-urls=${place.healthUrl}`,
      '--unsafe-no-fsync',
      '--log-level=warn',
      ...tlsFlags(place, options.authority),
      ...(options.flags ?? []),
    ],
  })
  try {
    await running.whenReady(async () => {
      // This check goes through the raft log, so it is true only once there is a leader. It ignores the NOSPACE alarm.
      const response = await fetch(`${place.healthUrl}/health?exclude=NOSPACE`, {
        headers: { connection: 'close' },
        signal: AbortSignal.timeout(5_000),
      })
      const { health } = (await response.json()) as { health?: string }
      return health === 'true'
    }, readyWithinMs)
  } catch (error) {
    await running.kill()
    throw error
  }
  return running
}

function tlsFlags(place: Place, authority: CertificateAuthority | undefined): readonly string[] {
  if (authority === undefined) return []
  const server = authority.issue({ commonName: 'etcd', ips: ['127.0.0.1'], dnsNames: ['localhost'] })
  const file = (name: string, content: string): string => {
    const path = join(place.directory, `${place.name}-${name}`)
    writeFileSync(path, content, { mode: 0o600 })
    return path
  }
  return [
    `--cert-file=${file('server.crt', server.certificate)}`,
    `--key-file=${file('server.key', server.key)}`,
    `--trusted-ca-file=${file('ca.crt', authority.certificate)}`,
    '--client-cert-auth',
  ]
}

/** Uses one connection per request, so that a killed etcd leaves no connection behind here. */
function post(url: string, body: unknown, token?: string): Promise<Response> {
  const headers = { connection: 'close', ...(token === undefined ? {} : { authorization: token }) }
  const init = { method: 'POST', body: JSON.stringify(body), headers }
  return fetch(url, { ...init, signal: AbortSignal.timeout(5_000) })
}
