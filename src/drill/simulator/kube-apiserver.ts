import { restKubeApi } from '../../kube/rest-api.ts'
import { seededRandom } from '../../runtime/random.ts'
import type { MemberState } from '../../verify/member-state.ts'
import type { EtcdRoute } from './etcd-link.ts'
import { INTERVAL_MS, KubeApiserverLife, TTL_SECONDS } from './kube-apiserver-life.ts'
import { SimulatedServer, simulatedLink } from './link.ts'
import type { Surroundings } from './master.ts'
import { processClock } from './process-clock.ts'

/**
 * A stand-in for a kube-apiserver that keeps `default/kubernetes` itself, with upstream's lease reconciler: pkg/controlplane/reconcilers/lease.go
 * and controller/kubernetesservice. Like that, it makes what is missing besides, and mends nothing of it.
 */
export class SimulatedKubeApiserver implements MemberState {
  readonly kind = 'kube-apiserver'
  readonly leaseTtlMs = TTL_SECONDS * 1000
  readonly reconcileIntervalMs = INTERVAL_MS
  readonly withdrawsOnStop = true
  readonly withdrawsLast = true
  readonly leavesWhenUnready = false
  readonly failure = undefined
  readonly name: string
  readonly address: string
  readonly server: SimulatedServer
  readonly etcd: EtcdRoute
  life: KubeApiserverLife | undefined
  readonly lives: KubeApiserverLife[] = []
  readonly #surroundings: Surroundings

  constructor(surroundings: Surroundings, host: { readonly name: string; readonly address: string }) {
    const etcd = surroundings.etcdRoute()
    if (etcd === undefined) throw new TypeError('a kube-apiserver needs etcd')
    this.#surroundings = surroundings
    this.server = new SimulatedServer(surroundings.datastore)
    this.etcd = etcd
    this.name = host.name
    this.address = host.address
  }

  start(): void {
    const { time, seed, spikes, transport } = this.#surroundings
    const clock = processClock(time)
    const random = seededRandom(seed, `${this.name} life ${this.lives.length + 1}`)
    const link = simulatedLink(transport(this.name), { server: this.server, clock, random, spikes })
    const api = restKubeApi({ transport: link, clock, random, fieldManager: 'kube-apiserver' })
    const etcd = this.etcd.connect({ clock, random, spikes })
    this.life = new KubeApiserverLife({ api, etcd, clock, random, address: this.address })
    this.lives.push(this.life)
  }

  kill(): void {
    this.life?.clock.kill()
    this.life = undefined
  }

  /** One that is stopped hears of it when it goes on. */
  terminate(): void {
    const { life } = this
    if (life?.clock.frozen) life.clock.schedule(0, () => life.terminate())
    else life?.terminate()
  }

  freeze(): void {
    this.life?.clock.freeze()
  }

  thaw(): void {
    this.life?.clock.thaw()
  }

  get frozen(): boolean {
    return this.life?.clock.frozen === true
  }

  get answering(): boolean {
    return !this.ended && !this.frozen && this.server.answering
  }

  get ready(): boolean {
    return this.server.ready
  }

  get storeFull(): boolean {
    return this.etcd.full
  }

  get lifeCount(): number {
    return this.lives.length
  }

  get hasBeenReady(): boolean | undefined {
    return this.life?.ready
  }

  get connectionResets(): number {
    return this.server.resets
  }

  get running(): boolean {
    return this.life !== undefined && !this.life.stopping && !this.life.clock.frozen
  }

  get stopping(): boolean {
    return this.life?.stopping === true
  }

  get ended(): boolean {
    return this.life?.ended !== false
  }

  get delayMs(): number {
    return Math.max(this.server.slowMs, this.etcd.slowMs)
  }

  get connected(): boolean {
    return this.etcd.open && this.server.reachable && !this.server.storeless
  }

  get serves(): boolean {
    return this.answering && this.ready && this.life?.ready === true
  }

  get etcdFails(): boolean {
    const { etcdCheck, storeless } = this.server
    return this.answering && this.ready && (!etcdCheck || storeless)
  }

  get impaired(): MemberState['impaired'] {
    return 'no'
  }

  get well(): boolean {
    return this.running && this.connected && this.serves
  }

  get clientsMeet(): MemberState['clientsMeet'] {
    const { life, server } = this
    if (life === undefined || life.ended) return 'refused'
    if (life.clock.frozen || server.unreachable) return 'black-holed'
    // It listens from its start on, but while it is not ready it fails what it is asked.
    return life.ready ? 'served' : 'refused'
  }

  get renewing(): boolean {
    return this.life !== undefined && !this.life.ended && !this.life.clock.frozen && this.etcd.open
  }
}
