import { join } from 'node:path'
import type { MemberState } from '../../verify/member-state.ts'
import type { Datastore, StoreState } from '../datastore.ts'
import { answersUnready, impairmentOf, type RequestRule } from '../request-faults.ts'
import type { FleetPlan, MasterPlan, MasterSettings } from '../scenario/scenario.ts'
import { Child } from './child.ts'
import { type Deed, etcdFlags, type LiveMember, type LiveSurroundings, type LiveWay } from './live-member.ts'
import type { ReadyzAnswer } from './readyz-responder.ts'
import { ServerFront } from './server-front.ts'
import {
  lifeThatCounts,
  SidecarLife,
  type SidecarSettings,
  settingsOf,
  sidecarFlags,
  writeKubeconfigCopy,
} from './sidecar.ts'
import { StorePaths } from './store-paths.ts'

/** One master of real processes: a sidecar of ours, and its API server's front. */
export class LiveMaster implements LiveMember {
  readonly kind = 'apiserver-bootstrap'
  readonly storeFull = false
  readonly name: string
  readonly #around: LiveSurroundings
  readonly #front: ServerFront
  /** Undefined where the leases are objects of the API. */
  readonly #store: StorePaths | undefined
  readonly #lives: SidecarLife[]
  /** The settings of the next life. */
  #settings: SidecarSettings
  /** The latest, unless it was killed. */
  #life: SidecarLife | undefined

  private constructor(
    around: LiveSurroundings,
    plan: MasterPlan,
    parts: {
      readonly settings: SidecarSettings
      readonly front: ServerFront
      readonly store: StorePaths | undefined
      readonly lives: SidecarLife[]
    },
  ) {
    this.#around = around
    this.name = plan.name
    this.#settings = parts.settings
    this.#front = parts.front
    this.#store = parts.store
    this.#lives = parts.lives
  }

  /** Nothing of it runs yet. */
  static async open(
    around: LiveSurroundings,
    fleet: FleetPlan,
    plan: MasterPlan,
    datastore: Datastore,
  ): Promise<LiveMaster> {
    const lives: SidecarLife[] = []
    const front = await ServerFront.open(around.cluster, datastore, (number, ready) => {
      const life = lives.find((one) => one.number === number)
      if (life === undefined) return
      life.awake = true
      if (ready) life.wasReady = true
    })
    const store = around.etcdPaths.length === 0 ? undefined : await StorePaths.open(around.etcdPaths, around.directory)
    const settings = settingsOf(fleet, plan.addresses, plan.settings)
    return new LiveMaster(around, plan, { settings, front, store, lives })
  }

  async act(part: 'sidecar' | 'server', deed: Deed): Promise<void> {
    await (part === 'server' ? this.#toServer(deed) : this.#toSidecar(deed))
  }

  terminateEarlier(): void {
    this.#lives.at(-2)?.signal('terminate')
  }

  cut(way: LiveWay): void {
    this.#setCut(way, true)
  }

  heal(way: LiveWay): void {
    this.#setCut(way, false)
  }

  slow(way: 'api' | 'store', byMs: number): void {
    if (way === 'api') this.#front.slow(byMs)
    else this.#store?.slow(byMs)
  }

  apply(rule: RequestRule): void {
    this.#front.apply(rule)
  }

  /** Expired credentials are renewed in the sidecar's files. */
  async lift(rule: RequestRule): Promise<void> {
    if (this.#front.lift(rule)) await this.#writeKubeconfig()
  }

  setOwnEtcd(state: StoreState): void {
    this.#front.store.own = state
  }

  async setStoreAway(away: boolean): Promise<void> {
    await this.#store?.setAway(away)
  }

  resetConnections(): void {
    this.#front.reset()
    this.#store?.reset()
  }

  answerReadyz(answer: ReadyzAnswer): void {
    this.#front.answerReadyz(answer)
  }

  configure(settings: MasterSettings): void {
    this.#settings = { ...this.#settings, ...settings }
  }

  async close(): Promise<void> {
    await Promise.all(this.#lives.map(({ child }) => child.kill()))
    await Promise.all([this.#front.close(), this.#store?.close()])
  }

  get addresses(): readonly string[] {
    return this.#presentSettings.addresses
  }

  get address(): string {
    return this.addresses[0] ?? ''
  }

  get clientPort(): number {
    return this.#front.clientPort
  }

  get clientTls(): boolean {
    return this.#around.cluster.server.tls
  }

  get metrics(): LiveMember['metrics'] {
    const { health, number } = this.#life ?? {}
    return health === undefined || number === undefined ? undefined : { ...health, life: number }
  }

  get leaseTtlMs(): number {
    return this.#presentSettings.leaseTtlMs
  }

  get reconcileIntervalMs(): number {
    return this.#presentSettings.reconcileIntervalMs
  }

  get withdrawsOnStop(): boolean {
    return this.#presentSettings.onShutdown !== 'keep'
  }

  get withdrawsLast(): boolean {
    return this.#presentSettings.onShutdown === 'always'
  }

  get leavesWhenUnready(): boolean {
    return this.#presentSettings.readinessGate === 'continuous'
  }

  get running(): boolean {
    return this.#present?.running === true
  }

  get stopping(): boolean {
    return this.#present?.stopping === true
  }

  get ended(): boolean {
    return this.#present?.child.ended !== false
  }

  get frozen(): boolean {
    return this.#present?.frozen === true && !this.ended
  }

  get connected(): boolean {
    const { up, frozen, cut, storeless } = this.#front
    return up && !frozen && !cut && !storeless && this.impaired === 'no' && !this.#isStoreCut
  }

  get delayMs(): number {
    return Math.max(this.#front.delayMs, this.#store?.delayMs ?? 0)
  }

  get answering(): boolean {
    return this.#front.answering
  }

  get ready(): boolean {
    return this.#front.ready
  }

  get serves(): boolean {
    return this.answering && this.ready && this.#front.etcdCheck && !answersUnready(this.#front.faults.rules)
  }

  get clientsMeet(): MemberState['clientsMeet'] {
    return this.#front.clientsMeet
  }

  get etcdFails(): boolean {
    return this.answering && this.ready && !this.#front.etcdCheck
  }

  get impaired(): MemberState['impaired'] {
    return impairmentOf(this.#front.faults.rules, this.#store === undefined)
  }

  get healthy(): boolean {
    return this.running && this.connected && this.serves
  }

  get renewing(): boolean {
    if (this.ended || this.frozen || !this.answering) return false
    if (this.#store !== undefined) return !this.#isStoreCut
    return !this.#front.storeless && this.impaired !== 'lease'
  }

  get lifeCount(): number {
    return this.#present?.number ?? this.#lives.length
  }

  get hasBeenReady(): boolean | undefined {
    return this.#present?.wasReady
  }

  get connectionResets(): number {
    return this.#front.resets
  }

  get failure(): unknown {
    return this.#present?.child.failure
  }

  get #isStoreCut(): boolean {
    return this.#store?.cut === true || this.#store?.away === true
  }

  get #present(): SidecarLife | undefined {
    return lifeThatCounts(this.#life, this.#lives.at(-2))
  }

  get #presentSettings(): SidecarSettings {
    return this.#lives.at(-1)?.settings ?? this.#settings
  }

  async #toServer(deed: Deed): Promise<void> {
    switch (deed) {
      case 'start':
        return this.#front.start()
      case 'kill':
      case 'terminate':
        return this.#front.kill()
      case 'freeze':
      case 'thaw':
        return this.#front.setFrozen(deed === 'freeze')
    }
  }

  async #toSidecar(deed: Deed): Promise<void> {
    const life = this.#life
    switch (deed) {
      case 'start':
        return this.#start()
      case 'kill':
        this.#life = undefined
        return life?.child.kill()
      default:
        life?.signal(deed)
    }
  }

  #setCut(way: LiveWay, cut: boolean): void {
    if (way === 'store') this.#store?.setCut(cut)
    else if (way === 'server-store') this.#front.store.cut = cut
    else this.#front.setCut(way, cut)
  }

  /** The kubeconfig of its sidecar, with its API server and credentials. */
  async #writeKubeconfig(): Promise<string> {
    const { cluster, directory } = this.#around
    const file = join(directory, `${this.name}.kubeconfig`)
    await writeKubeconfigCopy(file, cluster.access, this.#front.access)
    return file
  }

  async #start(): Promise<void> {
    const { options, watchdog, serviceClusterIpRange } = this.#around
    const settings = this.#settings
    const number = this.#lives.length + 1
    const kubeconfig = await this.#writeKubeconfig()
    const [command = '', ...before] = options.program
    const flags = sidecarFlags(settings, {
      kubeconfig,
      host: this.name,
      readyzUrl: this.#front.readyzUrl(number),
      serviceClusterIpRange,
      etcd: this.#store && { servers: this.#store.urls, flags: etcdFlags(this.#around) },
    })
    const child = await Child.start(command, [...before, ...flags], watchdog)
    const life = new SidecarLife(child, number, settings)
    this.#lives.push(life)
    this.#life = life
    child.onLine((line) => {
      const [, host, port] = /"health":"(.+):(\d+)"/.exec(line) ?? []
      if (host !== undefined) life.health ??= { host, port: Number(port) }
    })
  }
}
