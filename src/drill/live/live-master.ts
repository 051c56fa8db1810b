import { join } from 'node:path'
import type { MemberState } from '../../verify/member-state.ts'
import type { ObservedRequest } from '../../verify/observation.ts'
import type { Datastore } from '../datastore.ts'
import { answersUnready, impairmentOf, type RequestRule, smallDelayMs } from '../request-faults.ts'
import type { FleetPlan, MasterPlan } from '../scenario/scenario.ts'
import type { MemberPrimitive, ProcessAction } from '../target.ts'
import { Child } from './child.ts'
import { EtcdProxies } from './etcd-proxies.ts'
import { childOptions, etcdFlags, LiveMember, type LiveSurroundings } from './live-member.ts'
import { ServerFront } from './server-front.ts'
import {
  lifeThatCounts,
  SidecarLife,
  type SidecarSettings,
  settingsOf,
  sidecarFlags,
  writeKubeconfigCopy,
} from './sidecar.ts'

/** A master of a live drill: our sidecar, and the proxies in front of the API server. */
export class LiveMaster extends LiveMember<SidecarLife> implements MemberState {
  readonly kind = 'apiserver-bootstrap'
  readonly storeFull = false
  readonly name: string
  readonly #around: LiveSurroundings
  readonly #front: ServerFront
  /** Undefined if the leases are Lease objects. */
  readonly #store: EtcdProxies | undefined
  readonly #lives: SidecarLife[]
  /** The settings for the next start of the sidecar. */
  #settings: SidecarSettings
  /** The latest process of the sidecar; undefined after this object has killed it. */
  #latest: SidecarLife | undefined

  private constructor(
    around: LiveSurroundings,
    plan: MasterPlan,
    parts: {
      readonly settings: SidecarSettings
      readonly front: ServerFront
      readonly store: EtcdProxies | undefined
      readonly lives: SidecarLife[]
    },
  ) {
    super()
    this.#around = around
    this.name = plan.name
    this.#settings = parts.settings
    this.#front = parts.front
    this.#store = parts.store
    this.#lives = parts.lives
  }

  /** Prepares a master, but starts no process. */
  static async open(
    around: LiveSurroundings,
    fleet: FleetPlan,
    plan: MasterPlan,
    datastore: Datastore,
    onRequest: (request: ObservedRequest['request']) => void,
  ): Promise<LiveMaster> {
    const lives: SidecarLife[] = []
    const onAnswer = (number: number, ready: boolean): void => {
      const life = lives.find((one) => one.number === number)
      if (life === undefined) return
      life.awake = true
      if (ready) life.wasReady = true
    }
    const front = await ServerFront.open(around.cluster, datastore, onAnswer, onRequest)
    const store =
      around.etcdProxyTargets.length === 0
        ? undefined
        : await EtcdProxies.open(around.etcdProxyTargets, around.directory)
    const settings = settingsOf(fleet, plan.addresses, plan.settings)
    return new LiveMaster(around, plan, { settings, front, store, lives })
  }

  /** Does nothing for an action that this kind of member cannot do. */
  async perform(primitive: MemberPrimitive): Promise<void> {
    switch (primitive.type) {
      case 'start':
      case 'kill':
      case 'terminate':
      case 'freeze':
      case 'thaw':
        return primitive.part === 'server' ? this.#actOnServer(primitive.type) : this.#actOnSidecar(primitive.type)
      case 'retire':
        await this.#actOnSidecar('kill')
        return this.#actOnServer('kill')
      case 'terminate-earlier':
        for (const life of this.#lives) if (life !== this.#latest) life.signal('terminate')
        return
      case 'cut':
      case 'heal':
        return this.#setCut(primitive)
      case 'slow':
        return primitive.path === 'api' ? this.#front.slow(primitive.byMs) : this.#store?.slow(primitive.byMs)
      case 'fault':
        return this.#front.apply(primitive.rule)
      case 'no-fault':
        // After the rule `expired`, the sidecar's kubeconfig needs new credentials.
        if (this.#front.lift(primitive.rule)) await this.#writeKubeconfig()
        return
      case 'own-etcd':
        this.#front.store.own = primitive.state
        return
      case 'reset-connections':
        this.#front.reset()
        this.#store?.reset()
        return
      case 'readyz':
        return this.#front.answerReadyz(primitive.answer)
      case 'configure':
        this.#settings = { ...this.#settings, ...primitive.settings }
        return
      // Refused before the drill begins, because all processes of a host share its clock.
      case 'clock-skew':
        return
      default:
        primitive satisfies never
    }
  }

  /** Makes the proxies to etcd refuse connections, or accept them again. */
  async setStoreAway(away: boolean): Promise<void> {
    await this.#store?.setAway(away)
  }

  async close(): Promise<void> {
    await Promise.all(this.#lives.map(({ child }) => child.kill()))
    await Promise.all([this.#front.close(), this.#store?.close()])
  }

  override get ended(): boolean {
    return this.#lives.every(({ child }) => child.ended)
  }

  get addresses(): readonly string[] {
    return this.settings.addresses
  }

  /** The port on 127.0.0.1 to which clients connect. */
  get clientPort(): number {
    return this.#front.clientPort
  }

  get clientTls(): boolean {
    return this.#around.cluster.server.tls
  }

  get connected(): boolean {
    const { up, frozen, cut, storeless } = this.#front
    return up && !frozen && !cut && !storeless && this.impaired === 'no' && !this.#isStoreCut
  }

  get delayMs(): number {
    return Math.max(this.#front.delayMs, this.#store?.delayMs ?? 0) + smallDelayMs(this.#front.faults.rules)
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

  get clientConnections(): MemberState['clientConnections'] {
    return this.#front.clientConnections
  }

  get etcdFails(): boolean {
    return this.answering && this.ready && !this.#front.etcdCheck
  }

  get impaired(): MemberState['impaired'] {
    return impairmentOf(this.#front.faults.rules, this.#store === undefined)
  }

  /** How many requests, watches and events of the sidecar this rule has hit so far. */
  hitsOf(rule: RequestRule): number {
    return this.#front.faults.hitsOf(rule)
  }

  get disturbances(): number {
    return this.#front.faults.disturbances
  }

  get renewing(): boolean {
    if (this.ended || this.frozen || !this.answering) return false
    if (this.#store !== undefined) return !this.#isStoreCut
    return !this.#front.storeless && this.impaired !== 'lease'
  }

  get lifeCount(): number {
    return this.life?.number ?? this.#lives.length
  }

  get connectionResets(): number {
    return this.#front.resets
  }

  get #isStoreCut(): boolean {
    return this.#store?.cut === true || this.#store?.away === true
  }

  protected get life(): SidecarLife | undefined {
    return lifeThatCounts(this.#latest, this.#lives.at(-2))
  }

  protected get settings(): SidecarSettings {
    return this.#lives.at(-1)?.settings ?? this.#settings
  }

  async #actOnServer(action: ProcessAction): Promise<void> {
    switch (action) {
      case 'start':
        return this.#front.start()
      case 'kill':
      case 'terminate':
        return this.#front.kill()
      case 'freeze':
      case 'thaw':
        return this.#front.setFrozen(action === 'freeze')
    }
  }

  /** Signals go to all processes of the sidecar, because lives may overlap. */
  async #actOnSidecar(action: ProcessAction): Promise<void> {
    switch (action) {
      case 'start':
        return this.#start()
      case 'kill':
        this.#latest = undefined
        await Promise.all(this.#lives.map(({ child }) => child.kill()))
        return
      default:
        for (const life of this.#lives) life.signal(action)
    }
  }

  #setCut({ type, path }: Extract<MemberPrimitive, { readonly type: 'cut' | 'heal' }>): void {
    if (path === 'store') this.#store?.setCut(type === 'cut')
    else this.#front.setCut(path === 'server-store' ? 'store' : path, type === 'cut')
  }

  /** Resolves with the path of the file. */
  async #writeKubeconfig(): Promise<string> {
    const { cluster, directory } = this.#around
    const file = join(directory, `${this.name}.kubeconfig`)
    await writeKubeconfigCopy(file, cluster.access, this.#front.access)
    return file
  }

  async #start(): Promise<void> {
    const { options, serviceClusterIpRange } = this.#around
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
    const child = await Child.start(command, [...before, ...flags], childOptions(this.#around, this.name, number))
    const life = new SidecarLife(child, number, settings)
    this.#lives.push(life)
    this.#latest = life
  }
}
