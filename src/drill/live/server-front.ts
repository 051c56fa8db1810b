import { randomBytes } from 'node:crypto'
import { selfSignedCertificate } from '../../apiserver/http-certificate.ts'
import type { ObservedRequest } from '../../verify/observation.ts'
import { type Datastore, ServerStore } from '../datastore.ts'
import { RequestFaults, type RequestRule, silencesProbe } from '../request-faults.ts'
import type { Cluster } from './cluster.ts'
import { FaultProxy } from './fault-proxy.ts'
import { type ReadyzAnswer, ReadyzResponder } from './readyz-responder.ts'
import type { SidecarAccess } from './sidecar.ts'
import { TcpProxy } from './tcp-proxy.ts'

/**
 * The fault of all requests but probes while the server's etcd fails. No step lifts this rule: a step lifts only a rule
 * with its own content, and no step may have this number of `requests`.
 */
const storeFails: RequestRule = {
  fault: { type: 'status', status: 500 },
  only: 'api',
  requests: Number.MAX_SAFE_INTEGER,
}

interface FrontParts {
  readonly api: TcpProxy
  readonly probes: TcpProxy
  readonly clients: TcpProxy
  readonly readyz: ReadyzResponder
  /** The proxy that applies faults to single requests of the sidecar. */
  readonly requests: FaultProxy
  readonly faults: RequestFaults
  /** The authority of the proxy's certificate, as PEM. */
  readonly authority: string
}

/**
 * One master's API server: the real server behind this master's own proxies. So one master's server can be killed,
 * frozen and cut off without an effect on other masters. The sidecar's requests, the sidecar's probes and the clients
 * pass through different proxies.
 */
export class ServerFront {
  up = false
  frozen = false
  /** How often all connections of the sidecar to this server were reset. */
  resets = 0
  delayMs = 0
  #cutApi = false
  #cutClients = false
  readonly #parts: FrontParts
  readonly #sentCredentials: Cluster['sentCredentials']
  #token: string | undefined
  readonly store: ServerStore

  private constructor(
    parts: FrontParts,
    sentCredentials: Cluster['sentCredentials'],
    token: string | undefined,
    datastore: Datastore,
  ) {
    this.#parts = parts
    this.#sentCredentials = sentCredentials
    this.#token = token
    this.store = new ServerStore(datastore, () => this.#followStore())
    // A datastore outage may already have begun.
    this.#followStore()
  }

  /**
   * Opens a server that refuses connections until {@link start}. `onAnswer` is called for each answer of /readyz,
   * except answers of request faults, with the number of the sidecar's life that gets the answer. `onRequest` is called
   * with each request of the sidecar except its probes.
   */
  static async open(
    cluster: Cluster,
    datastore: Datastore,
    onAnswer: (life: number, ready: boolean) => void,
    onRequest: (request: ObservedRequest['request']) => void,
  ): Promise<ServerFront> {
    const { proxied: server, sentCredentials } = cluster
    const faults = new RequestFaults()
    const readyz = await ReadyzResponder.open({ real: cluster.readyz, onAnswer, faults })
    // TLS protects the tokens of the sidecar against a process that takes the port after the drill.
    const tls = selfSignedCertificate(['127.0.0.1'])
    const token = sentCredentials && newToken()
    const credential = token === undefined ? undefined : { token, ...sentCredentials }
    const requests = await FaultProxy.open({ server, tls, credential, faults, onRequest })
    const api = await TcpProxy.open({ host: '127.0.0.1', port: requests.port })
    const probes = await TcpProxy.open({ host: '127.0.0.1', port: readyz.port })
    const clients = await TcpProxy.open(cluster.server)
    const parts = { api, probes, clients, readyz, requests, faults, authority: tls.certificate }
    return new ServerFront(parts, sentCredentials, token, datastore)
  }

  /** The faults of the sidecar's requests. */
  get faults(): RequestFaults {
    return this.#parts.faults
  }

  /** How the sidecar connects to this server. The token changes when the fault `expired` ends. */
  get access(): SidecarAccess {
    return { port: this.#parts.api.port, authority: this.#parts.authority, token: this.#token }
  }

  apply(rule: RequestRule): void {
    this.#parts.requests.apply(rule)
  }

  /** Ends a fault. Returns whether the sidecar's credentials have changed. */
  lift(rule: RequestRule): boolean {
    const stood = this.faults.remove(rule)
    if (!stood || rule.fault.type !== 'expired' || this.#sentCredentials === undefined) return false
    this.#token = newToken()
    this.#parts.requests.issue({ token: this.#token, ...this.#sentCredentials })
    return true
  }

  get clientPort(): number {
    return this.#parts.clients.port
  }

  readyzUrl(life: number): string {
    return `http://127.0.0.1:${this.#parts.probes.port}/${life}/readyz`
  }

  get cut(): boolean {
    return this.#cutApi
  }

  get storeless(): boolean {
    return this.store.state !== 'ok'
  }

  get etcdCheck(): boolean {
    return this.#parts.readyz.answer !== 'etcd-fails' && !this.storeless
  }

  get ready(): boolean {
    return this.#parts.readyz.answer !== 'unready'
  }

  get answering(): boolean {
    const isSilent =
      this.#parts.readyz.answer === 'hangs' || this.store.state === 'hangs' || silencesProbe(this.faults.rules)
    return this.up && !this.frozen && !this.#cutApi && !isSilent
  }

  get clientConnections(): 'served' | 'refused' | 'black-holed' {
    if (!this.up) return 'refused'
    return this.frozen || this.#cutClients ? 'black-holed' : 'served'
  }

  async start(): Promise<void> {
    if (this.up) return
    this.up = true
    this.store.restart()
    await Promise.all(this.#all.map((proxy) => proxy.accept()))
  }

  async kill(): Promise<void> {
    if (this.up) this.resets++
    this.up = false
    this.setFrozen(false)
    await Promise.all(this.#all.map((proxy) => proxy.refuse()))
  }

  setFrozen(frozen: boolean): void {
    this.frozen = frozen && this.up
    for (const proxy of this.#all) proxy.setHold('frozen', this.frozen)
  }

  /** Cuts the server off from its sidecar (`api`), its datastore or its clients, or connects it again. */
  setCut(way: 'api' | 'store' | 'clients', cut: boolean): void {
    if (way === 'store') this.store.cut = cut
    else if (way === 'clients') {
      this.#cutClients = cut
      this.#parts.clients.setCut(cut)
    } else {
      const healed = this.#cutApi && !cut
      this.#cutApi = cut
      this.#holdApi()
      if (healed) this.reset()
    }
  }

  slow(delayMs: number): void {
    this.delayMs = delayMs
    for (const proxy of [this.#parts.api, this.#parts.probes]) proxy.delay(delayMs)
  }

  /** Resets every connection of the sidecar to this server. */
  reset(): void {
    this.resets++
    for (const proxy of [this.#parts.api, this.#parts.probes]) proxy.reset()
  }

  answerReadyz(answer: ReadyzAnswer): void {
    this.#parts.readyz.answer = answer
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all, this.#parts.requests, this.#parts.readyz].map((part) => part.close()))
  }

  get #all(): readonly TcpProxy[] {
    return [this.#parts.api, this.#parts.probes, this.#parts.clients]
  }

  #holdApi(): void {
    this.#parts.probes.setHold('cut', this.#cutApi)
    this.#parts.api.setHold('cut', this.#cutApi || this.store.state === 'hangs')
  }

  #followStore(): void {
    const { state } = this.store
    this.#parts.readyz.store = state
    if (state === 'fails') this.#parts.requests.apply(storeFails)
    else this.#parts.requests.lift(storeFails)
    this.#holdApi()
  }
}

function newToken(): string {
  return randomBytes(24).toString('hex')
}
