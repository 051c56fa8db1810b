import { randomBytes } from 'node:crypto'
import { type Datastore, ServerStore } from '../datastore.ts'
import { RequestFaults, type RequestRule, silencesProbe } from '../request-faults.ts'
import { CertificateAuthority } from './certificate-authority.ts'
import type { Cluster } from './cluster.ts'
import { FaultProxy } from './fault-proxy.ts'
import type { SidecarAccess } from './kubeconfig-copy.ts'
import { type ReadyzAnswer, ReadyzResponder } from './readyz-responder.ts'
import { TcpProxy } from './tcp-proxy.ts'

// What every request meets while its etcd fails.
/** Said in no step: whatever a step says is another rule. */
const storeFails: RequestRule = {
  fault: { type: 'status', status: 500 },
  only: 'api',
  requests: Number.MAX_SAFE_INTEGER,
}

/**
 * One master's API server: the one that there really is, behind proxies of the master's own, that can be killed, frozen and cut off without
 * it. Its way for the sidecar, for the sidecar's probes, and for clients.
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
  /** Of single requests: of the sidecar's, and of its probes. */
  readonly #requests: readonly [api: FaultProxy, probes: FaultProxy]
  readonly #shown: Cluster['shown']
  readonly #authority: string
  #token: string | undefined
  /** What the sidecar's requests meet. */
  readonly faults: RequestFaults
  /** How it finds what it stores into. */
  readonly store: ServerStore

  private constructor(
    parts: {
      readonly api: TcpProxy
      readonly probes: TcpProxy
      readonly clients: TcpProxy
      readonly readyz: ReadyzResponder
      readonly requests: readonly [FaultProxy, FaultProxy]
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

  /** Refuses until it is started. `heard` is told each answer of its /readyz, and to which life of the sidecar. */
  static async open(
    cluster: Cluster,
    datastore: Datastore,
    heard: (life: number, ready: boolean) => void,
  ): Promise<ServerFront> {
    const { proxied: server, shown } = cluster
    const faults = new RequestFaults()
    const readyz = await ReadyzResponder.open(cluster.readyz, heard)
    // TLS whatever the server speaks: tokens go this way, and are not for whoever takes the port once the drill has left it.
    const authority = new CertificateAuthority()
    const tls = authority.issue({ commonName: 'drill', ips: ['127.0.0.1'] })
    const token = shown && newToken()
    const credential = token === undefined ? undefined : { token, ...shown }
    const probed = { url: new URL(`http://127.0.0.1:${readyz.port}`) }
    const requests = [
      await FaultProxy.open({ server, tls, credential, faults }),
      await FaultProxy.open({ server: probed, faults }),
    ] as const
    const [api, probes] = await Promise.all(requests.map(({ port }) => TcpProxy.open({ host: '127.0.0.1', port })))
    if (api === undefined || probes === undefined) throw new TypeError('no proxies')
    const clients = await TcpProxy.open(cluster.server)
    const parts = { api, probes, clients, readyz, requests, faults, authority: authority.certificate, token }
    return new ServerFront(parts, shown, datastore)
  }

  /** How its sidecar gets in, at this moment. */
  get access(): SidecarAccess {
    return { port: this.#api.port, authority: this.#authority, token: this.#token }
  }

  /** From now on what the sidecar sends meets this. */
  apply(rule: RequestRule): void {
    for (const proxy of this.#requests) proxy.apply(rule)
  }

  /** Whether there are other credentials from now on. */
  lift(rule: RequestRule): boolean {
    const stood = this.faults.remove(rule)
    if (!stood || rule.fault.type !== 'expired' || this.#shown === undefined) return false
    this.#token = newToken()
    this.#requests[0].issue({ token: this.#token, ...this.#shown })
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

  setCut(way: 'api' | 'clients', cut: boolean): void {
    switch (way) {
      case 'clients':
        this.#cutClients = cut
        if (cut) this.#clients.hold('cut')
        else {
          this.#clients.release('cut')
          this.#clients.reset()
        }
        return
      case 'api': {
        const healed = this.#cutApi && !cut
        this.#cutApi = cut
        this.#holdApi()
        if (healed) this.reset()
        return
      }
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
    await Promise.all([...this.#all, ...this.#requests, this.#readyz].map((part) => part.close()))
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
    if (state === 'fails') this.#requests[0].apply(storeFails)
    else this.#requests[0].lift(storeFails)
    this.#holdApi()
  }
}

function newToken(): string {
  return randomBytes(24).toString('hex')
}
