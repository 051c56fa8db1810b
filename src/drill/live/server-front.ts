import { randomBytes } from 'node:crypto'
import type { ObservedRequest } from '../../verify/observation.ts'
import { type Datastore, ServerStore } from '../datastore.ts'
import { RequestFaults, type RequestRule, silencesProbe } from '../request-faults.ts'
import { selfSignedCertificate } from './certificate.ts'
import type { Cluster } from './cluster.ts'
import { FaultProxy } from './fault-proxy.ts'
import { type ReadyzAnswer, ReadyzResponder } from './readyz-responder.ts'
import type { SidecarAccess } from './sidecar.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** The fault of every request while its etcd fails. No step has this rule. */
const storeFails: RequestRule = {
  fault: { type: 'status', status: 500 },
  only: 'api',
  requests: Number.MAX_SAFE_INTEGER,
}

/**
 * One master's API server: the real one, behind proxies of the master's own, which can be killed, frozen and cut off
 * separately. With paths for the sidecar, for the sidecar's probes, and for clients.
 */
export class ServerFront {
  up = false
  frozen = false
  /** How often all connections of the sidecar were reset. */
  resets = 0
  delayMs = 0
  #cutApi = false
  #cutClients = false
  readonly #api: TcpProxy
  readonly #probes: TcpProxy
  readonly #clients: TcpProxy
  readonly #readyz: ReadyzResponder
  /** The proxy for single requests of the sidecar. */
  readonly #requests: FaultProxy
  readonly #shown: Cluster['shown']
  readonly #authority: string
  #token: string | undefined
  /** The faults of the sidecar's requests. */
  readonly faults: RequestFaults
  /** The state of its datastore. */
  readonly store: ServerStore

  private constructor(
    parts: {
      readonly api: TcpProxy
      readonly probes: TcpProxy
      readonly clients: TcpProxy
      readonly readyz: ReadyzResponder
      readonly requests: FaultProxy
      readonly faults: RequestFaults
      readonly authority: string
      readonly token: string | undefined
    },
    shown: Cluster['shown'],
    datastore: Datastore,
  ) {
    this.#api = parts.api
    this.#probes = parts.probes
    this.#clients = parts.clients
    this.#readyz = parts.readyz
    this.#requests = parts.requests
    this.faults = parts.faults
    this.#authority = parts.authority
    this.#token = parts.token
    this.#shown = shown
    this.store = new ServerStore(datastore, () => this.#followStore())
  }

  /**
   * Refuses until it is started. `onAnswer` is called with each answer of its /readyz, and the life of the sidecar;
   * `onRequest` with each request of the sidecar.
   */
  static async open(
    cluster: Cluster,
    datastore: Datastore,
    {
      onAnswer,
      onRequest,
    }: {
      readonly onAnswer: (life: number, ready: boolean) => void
      readonly onRequest: (request: ObservedRequest['request']) => void
    },
  ): Promise<ServerFront> {
    const { proxied: server, shown } = cluster
    const faults = new RequestFaults()
    const readyz = await ReadyzResponder.open(cluster.readyz, onAnswer, faults)
    // Always TLS: tokens pass here, and must not go to a process that takes the port after the drill.
    const tls = selfSignedCertificate('127.0.0.1')
    const token = shown && newToken()
    const credential = token === undefined ? undefined : { token, ...shown }
    const requests = await FaultProxy.open({ server, tls, credential, faults, onRequest })
    const api = await TcpProxy.open({ host: '127.0.0.1', port: requests.port })
    const probes = await TcpProxy.open({ host: '127.0.0.1', port: readyz.port })
    const clients = await TcpProxy.open(cluster.server)
    const parts = { api, probes, clients, readyz, requests, faults, authority: tls.certificate, token }
    return new ServerFront(parts, shown, datastore)
  }

  /** The present access of its sidecar. */
  get access(): SidecarAccess {
    return { port: this.#api.port, authority: this.#authority, token: this.#token }
  }

  /** From now on the sidecar's requests have this fault. */
  apply(rule: RequestRule): void {
    this.#requests.apply(rule)
  }

  /** Returns whether the credentials have changed. */
  lift(rule: RequestRule): boolean {
    const stood = this.faults.remove(rule)
    if (!stood || rule.fault.type !== 'expired' || this.#shown === undefined) return false
    this.#token = newToken()
    this.#requests.issue({ token: this.#token, ...this.#shown })
    return true
  }

  get clientPort(): number {
    return this.#clients.port
  }

  readyzUrl(life: number): string {
    return `http://127.0.0.1:${this.#probes.port}/${life}/readyz`
  }

  get cut(): boolean {
    return this.#cutApi
  }

  get storeless(): boolean {
    return this.store.state !== 'ok'
  }

  get etcdCheck(): boolean {
    return this.#readyz.answer !== 'etcd-fails' && !this.storeless
  }

  get ready(): boolean {
    return this.#readyz.answer !== 'unready'
  }

  get answering(): boolean {
    const isSilent = this.#readyz.answer === 'hangs' || this.store.state === 'hangs' || silencesProbe(this.faults.rules)
    return this.up && !this.frozen && !this.#cutApi && !isSilent
  }

  get clientsMeet(): 'served' | 'refused' | 'black-holed' {
    if (!this.up) return 'refused'
    return this.frozen || this.#cutClients ? 'black-holed' : 'served'
  }

  async start(): Promise<void> {
    this.up = true
    this.store.restart()
    await Promise.all(this.#all.map((proxy) => proxy.accept()))
  }

  /** As if its process had ended: everything is reset, and then refused. */
  async kill(): Promise<void> {
    if (this.up) this.resets++
    this.up = false
    this.setFrozen(false)
    await Promise.all(this.#all.map((proxy) => proxy.refuse()))
  }

  setFrozen(frozen: boolean): void {
    this.frozen = frozen && this.up
    for (const proxy of this.#all) this.frozen ? proxy.hold('frozen') : proxy.release('frozen')
  }

  /** `api`: from the sidecar; `store`: the server from its datastore; `clients`: from its clients. */
  setCut(way: 'api' | 'store' | 'clients', cut: boolean): void {
    if (way === 'store') this.store.cut = cut
    else if (way === 'clients') {
      this.#cutClients = cut
      this.#clients.setCut(cut)
    } else {
      const healed = this.#cutApi && !cut
      this.#cutApi = cut
      this.#holdApi()
      if (healed) this.reset()
    }
  }

  slow(delayMs: number): void {
    this.delayMs = delayMs
    for (const proxy of [this.#api, this.#probes]) proxy.delay(delayMs)
  }

  /** Resets every connection of the sidecar. */
  reset(): void {
    this.resets++
    for (const proxy of [this.#api, this.#probes]) proxy.reset()
  }

  answerReadyz(answer: ReadyzAnswer): void {
    this.#readyz.answer = answer
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all, this.#requests, this.#readyz].map((part) => part.close()))
  }

  get #all(): readonly TcpProxy[] {
    return [this.#api, this.#probes, this.#clients]
  }

  #holdApi(): void {
    if (this.#cutApi) this.#probes.hold('cut')
    else this.#probes.release('cut')
    if (this.#cutApi || this.store.state === 'hangs') this.#api.hold('cut')
    else this.#api.release('cut')
  }

  #followStore(): void {
    const { state } = this.store
    this.#readyz.store = state
    if (state === 'fails') this.#requests.apply(storeFails)
    else this.#requests.lift(storeFails)
    this.#holdApi()
  }
}

function newToken(): string {
  return randomBytes(24).toString('hex')
}
