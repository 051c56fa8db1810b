import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { HttpTransport } from '../../kube/http-transport.ts'
import { sleep } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import type { StoreState } from '../datastore.ts'
import type { MasterPlan } from '../scenario/scenario.ts'
import { DrillError } from '../target.ts'
import { Child, ProcessLife } from './child.ts'
import { type Deed, etcdFlags, type LiveMember, type LiveSurroundings, type LiveWay } from './live-member.ts'
import { StorePaths } from './store-paths.ts'
import { listenAnywhere, TcpProxy } from './tcp-proxy.ts'

/** Neither has a flag. */
const TTL_MS = 15_000
const INTERVAL_MS = 10_000
/** Between two probes, in milliseconds. */
const PROBE_MS = 250

class ServerLife extends ProcessLife {
  answering = false
  ready = false
}

/**
 * A kube-apiserver of its own on the etcd of the drill, which stays listed through upstream's reconciler. Only holders
 * of a token made for it may use it.
 */
export class LiveKubeApiserver implements LiveMember {
  readonly kind = 'kube-apiserver'
  readonly leaseTtlMs = TTL_MS
  readonly reconcileIntervalMs = INTERVAL_MS
  readonly withdrawsOnStop = true
  readonly withdrawsLast = true
  readonly leavesWhenUnready = false
  readonly storeFull = false
  readonly clientTls = true
  readonly metrics = undefined
  readonly name: string
  readonly addresses: readonly string[]
  connectionResets = 0
  lifeCount = 0
  readonly #around: LiveSurroundings
  readonly #directory: string
  readonly #port: number
  readonly #token: string
  readonly #clients: TcpProxy
  readonly #store: StorePaths
  #life: ServerLife | undefined
  #cutClients = false

  private constructor(
    around: LiveSurroundings,
    plan: MasterPlan,
    parts: {
      readonly directory: string
      readonly port: number
      readonly token: string
      readonly clients: TcpProxy
      readonly store: StorePaths
    },
  ) {
    this.#around = around
    this.name = plan.name
    this.addresses = plan.addresses.slice(0, 1)
    this.#directory = parts.directory
    this.#port = parts.port
    this.#token = parts.token
    this.#clients = parts.clients
    this.#store = parts.store
  }

  /** Makes its credentials; it does not run yet. */
  static async open(around: LiveSurroundings, plan: MasterPlan): Promise<LiveKubeApiserver> {
    if (around.etcdPaths.length === 0) throw new DrillError(`${plan.name}: a kube-apiserver needs --etcd-servers`)
    if (around.options.kubeApiserver === undefined) {
      throw new DrillError(`${plan.name}: which kube-apiserver is to run: --kube-apiserver FILE`)
    }
    const directory = join(around.directory, plan.name)
    await mkdir(directory, { mode: 0o700 })
    const token = randomBytes(32).toString('hex')
    const { publicKey, privateKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    })
    const files = { 'sa.pub': publicKey, 'sa.key': privateKey, 'tokens.csv': `${token},drill,drill,"system:masters"\n` }
    for (const [file, content] of Object.entries(files))
      await writeFile(join(directory, file), content, { mode: 0o600 })
    const port = await freePort()
    const clients = await TcpProxy.open({ host: '127.0.0.1', port })
    await clients.accept()
    return new LiveKubeApiserver(around, plan, {
      directory,
      port,
      token,
      clients,
      store: await StorePaths.open(around.etcdPaths, around.directory),
    })
  }

  /** It has only one process: actions on its parts apply to that. */
  async act(_part: 'sidecar' | 'server', deed: Deed): Promise<void> {
    const life = this.#life
    switch (deed) {
      case 'start':
        // Two of the same server are impossible: they listen on one port.
        if (life?.running === true) return
        await life?.child.kill()
        return this.#start()
      case 'kill':
        this.#life = undefined
        return life?.child.kill()
      default:
        life?.signal(deed)
    }
  }

  terminateEarlier(): void {}

  cut(way: LiveWay): void {
    this.#setCut(way, true)
  }

  heal(way: LiveWay): void {
    this.#setCut(way, false)
  }

  slow(way: 'api' | 'store', byMs: number): void {
    if (way === 'store') this.#store.slow(byMs)
  }

  /** There is no sidecar beside it. */
  apply(): void {}

  async lift(): Promise<void> {}

  setOwnEtcd(state: StoreState): void {
    this.#store.setCut(state !== 'ok')
  }

  setStoreAway(away: boolean): Promise<void> {
    return this.#store.setAway(away)
  }

  resetConnections(): void {
    this.#store.reset()
  }

  answerReadyz(): void {}

  configure(): void {}

  async close(): Promise<void> {
    const life = this.#life
    this.#life = undefined
    await life?.child.kill()
    await Promise.all([this.#clients.close(), this.#store.close()])
  }

  get address(): string {
    return this.addresses[0] ?? ''
  }

  get clientPort(): number {
    return this.#clients.port
  }

  get running(): boolean {
    return this.#life?.running === true
  }

  get stopping(): boolean {
    return this.#life?.stopping === true
  }

  get ended(): boolean {
    return this.#life?.child.ended !== false
  }

  get frozen(): boolean {
    return this.#life?.frozen === true && !this.ended
  }

  get connected(): boolean {
    return !this.#isStoreCut
  }

  get delayMs(): number {
    return this.#store.delayMs
  }

  get answering(): boolean {
    return !this.ended && !this.frozen && this.#life?.answering === true
  }

  get ready(): boolean {
    return this.#life?.ready === true
  }

  get serves(): boolean {
    return this.answering && this.#life?.wasReady === true
  }

  get clientsMeet(): MemberState['clientsMeet'] {
    if (this.ended) return 'refused'
    if (this.frozen || this.#cutClients) return 'black-holed'
    return this.#life?.answering === true ? 'served' : 'refused'
  }

  get etcdFails(): boolean {
    return false
  }

  get impaired(): MemberState['impaired'] {
    return 'no'
  }

  get healthy(): boolean {
    return this.running && this.connected && this.serves
  }

  get renewing(): boolean {
    return !this.ended && !this.frozen && this.connected
  }

  get hasBeenReady(): boolean | undefined {
    return this.#life?.wasReady
  }

  get failure(): unknown {
    return this.#life?.child.failure
  }

  get #isStoreCut(): boolean {
    return this.#store.cut || this.#store.away
  }

  #setCut(way: LiveWay, cut: boolean): void {
    if (way === 'clients') {
      this.#cutClients = cut
      if (cut) this.#clients.hold('cut')
      else {
        this.#clients.release('cut')
        this.#clients.reset()
      }
    } else if (way !== 'api') this.#store.setCut(cut)
  }

  async #start(): Promise<void> {
    const { options, watchdog, serviceClusterIpRange } = this.#around
    const file = (name: string): string => join(this.#directory, name)
    const flags = [
      `--etcd-servers=${this.#store.urls.join()}`,
      ...etcdFlags(this.#around),
      `--advertise-address=${this.address}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.#port}`,
      `--cert-dir=${file('certificates')}`,
      `--service-cluster-ip-range=${serviceClusterIpRange}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${file('sa.pub')}`,
      `--service-account-signing-key-file=${file('sa.key')}`,
      `--token-auth-file=${file('tokens.csv')}`,
      // All except the drill itself, which is in system:masters: the server gives access to a foreign store.
      '--authorization-mode=AlwaysDeny',
      '--disable-admission-plugins=ServiceAccount',
      '--profiling=false',
    ]
    const child = await Child.start(options.kubeApiserver ?? '', flags, watchdog)
    const life = new ServerLife(child)
    this.#life = life
    this.lifeCount++
    void this.#probe(life)
  }

  /** Probes it as long as it runs. */
  async #probe(life: ServerLife): Promise<void> {
    const server = new URL(`https://127.0.0.1:${this.#port}`)
    let transport: HttpTransport | undefined
    while (!life.child.ended) {
      try {
        // It creates its certificate itself.
        const ca = await readFile(join(this.#directory, 'certificates', 'apiserver.crt'), 'utf8')
        transport ??= new HttpTransport({ server, tls: { ca }, timeoutMs: 3_000 })
        const headers = { authorization: `Bearer ${this.#token}` }
        const { status } = await transport.send(
          { method: 'GET', path: '/readyz', query: [], headers },
          new AbortController().signal,
        )
        life.answering = true
        life.ready = status === 200
        life.wasReady ||= life.ready
      } catch {
        life.answering = false
      }
      await sleep(systemClock, PROBE_MS)
    }
    await transport?.close()
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listenAnywhere(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}
