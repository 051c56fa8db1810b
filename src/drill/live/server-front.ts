import type { Cluster } from './cluster.ts'
import { type ReadyzAnswer, ReadyzResponder } from './readyz-responder.ts'
import { TcpProxy } from './tcp-proxy.ts'

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

  private constructor(api: TcpProxy, probes: TcpProxy, clients: TcpProxy, readyz: ReadyzResponder) {
    this.#api = api
    this.#probes = probes
    this.#clients = clients
    this.#readyz = readyz
  }

  /** Refuses until it is started. `heard` is told each answer of its /readyz, and to which life of the sidecar. */
  static async open(cluster: Cluster, heard: (life: number, ready: boolean) => void): Promise<ServerFront> {
    const readyz = await ReadyzResponder.open(cluster.readyz, heard)
    const probes = await TcpProxy.open({ host: '127.0.0.1', port: readyz.port })
    return new ServerFront(await TcpProxy.open(cluster.server), probes, await TcpProxy.open(cluster.server), readyz)
  }

  get apiPort(): number {
    return this.#api.port
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
    return this.#readyz.storeless
  }

  get etcdCheck(): boolean {
    return this.#readyz.answer !== 'etcd-fails' && !this.storeless
  }

  get ready(): boolean {
    return this.#readyz.answer !== 'unready'
  }

  get answering(): boolean {
    return this.up && !this.frozen && !this.#cutApi && this.#readyz.answer !== 'hangs'
  }

  get clientsMeet(): 'served' | 'refused' | 'black-holed' {
    if (!this.up) return 'refused'
    return this.frozen || this.#cutClients ? 'black-holed' : 'served'
  }

  async start(): Promise<void> {
    this.up = true
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

  setCut(way: 'api' | 'clients' | 'server-store', cut: boolean): void {
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
      case 'server-store':
        // A kube-apiserver without its etcd answers nothing for as long as its own requests take to fail, but tells what is wrong.
        this.#readyz.storeless = cut
        this.#holdApi()
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
    await Promise.all([...this.#all, this.#readyz].map((part) => part.close()))
  }

  get #all(): readonly TcpProxy[] {
    return [this.#api, this.#probes, this.#clients]
  }

  #holdApi(): void {
    if (this.#cutApi) this.#probes.hold('cut')
    else this.#probes.release('cut')
    if (this.#cutApi || this.storeless) this.#api.hold('cut')
    else this.#api.release('cut')
  }
}
