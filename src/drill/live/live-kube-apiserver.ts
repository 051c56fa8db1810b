import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { HttpTransport } from '../../kube/http-transport.ts'
import { sleep } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import { upstreamSettings } from '../scenario/duration.ts'
import type { MasterPlan } from '../scenario/scenario.ts'
import { DrillError, type MemberPrimitive } from '../target.ts'
import { Child, ProcessLife } from './child.ts'
import { EtcdProxies } from './etcd-proxies.ts'
import { childOptions, etcdFlags, LiveMember, type LiveSurroundings } from './live-member.ts'
import { listenAnywhere, TcpProxy } from './tcp-proxy.ts'

const PROBE_MS = 250

class ServerLife extends ProcessLife {
  answering = false
  ready = false
}

interface ServerParts {
  readonly directory: string
  readonly port: number
  readonly token: string
  readonly clients: TcpProxy
  readonly store: EtcdProxies
}

/**
 * A real kube-apiserver on the etcd of the drill. Upstream's reconciler in this server lists the server's address. The
 * server refuses every request without the drill's token.
 */
export class LiveKubeApiserver extends LiveMember<ServerLife> implements MemberState {
  readonly kind = 'kube-apiserver'
  protected readonly settings = upstreamSettings
  readonly storeFull = false
  readonly etcdFails = false
  readonly impaired = 'no'
  readonly disturbances = 0
  readonly clientTls = true
  readonly name: string
  readonly addresses: readonly string[]
  connectionResets = 0
  lifeCount = 0
  readonly #around: LiveSurroundings
  readonly #parts: ServerParts
  protected life: ServerLife | undefined
  #cutClients = false
  /** The faults that cut the server off from etcd. */
  readonly #storeCuts = new Set<string>()
  /** The faults in which etcd refuses the server's connections. */
  readonly #storeStops = new Set<string>()

  private constructor(around: LiveSurroundings, plan: MasterPlan, parts: ServerParts) {
    super()
    this.#around = around
    this.name = plan.name
    this.addresses = plan.addresses.slice(0, 1)
    this.#parts = parts
  }

  /**
   * Prepares the credentials and the proxies, but starts no process. Rejects with a {@link DrillError} if the drill has
   * no etcd or no kube-apiserver binary.
   */
  static async open(around: LiveSurroundings, plan: MasterPlan): Promise<LiveKubeApiserver> {
    if (around.etcdProxyTargets.length === 0)
      throw new DrillError(`${plan.name}: a kube-apiserver needs --etcd-servers`)
    if (around.options.kubeApiserver === undefined) {
      throw new DrillError(`${plan.name}: no kube-apiserver binary: set --kube-apiserver FILE`)
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
      store: await EtcdProxies.open(around.etcdProxyTargets, around.directory),
    })
  }

  /**
   * Applies actions on either part to the one process, because a kube-apiserver has no sidecar. Does nothing for an
   * action that this kind of member cannot do.
   */
  async perform(primitive: MemberPrimitive): Promise<void> {
    switch (primitive.type) {
      case 'start':
        // Two processes of one server would listen on the same port.
        if (this.running) return
        await this.#kill()
        return this.#start()
      case 'kill':
      case 'retire':
        return this.#kill()
      case 'terminate':
      case 'freeze':
      case 'thaw':
        this.life?.signal(primitive.type)
        return
      case 'cut':
      case 'heal':
        if (primitive.path === 'clients') this.#cutFromClients(primitive.type === 'cut')
        else if (primitive.path !== 'api') this.#cutFromStore(primitive.path, primitive.type === 'cut')
        return
      case 'slow':
        if (primitive.path === 'store') this.#parts.store.slow(primitive.byMs)
        return
      case 'own-etcd':
        return this.#stopStore('own-etcd', primitive.state !== 'ok')
      case 'reset-connections':
        return this.#parts.store.reset()
      // These actions need a sidecar, or a /readyz that the drill itself answers.
      case 'terminate-earlier':
      case 'fault':
      case 'no-fault':
      case 'readyz':
      case 'clock-skew':
      case 'configure':
        return
      default:
        primitive satisfies never
    }
  }

  /** Begins or ends a datastore outage, in which the proxies to etcd refuse connections. */
  setStoreAway(away: boolean): Promise<void> {
    return this.#stopStore('datastore', away)
  }

  async close(): Promise<void> {
    await this.#kill()
    await Promise.all([this.#parts.clients.close(), this.#parts.store.close()])
  }

  /** The port on 127.0.0.1 to which clients connect. */
  get clientPort(): number {
    return this.#parts.clients.port
  }

  get connected(): boolean {
    return !this.#parts.store.cut && !this.#parts.store.away
  }

  get delayMs(): number {
    return this.#parts.store.delayMs
  }

  get answering(): boolean {
    return !this.ended && !this.frozen && this.life?.answering === true
  }

  get ready(): boolean {
    return this.life?.ready === true
  }

  get serves(): boolean {
    return this.answering && this.life?.wasReady === true
  }

  get clientConnections(): MemberState['clientConnections'] {
    if (this.ended) return 'refused'
    if (this.frozen || this.#cutClients) return 'black-holed'
    return this.life?.answering === true ? 'served' : 'refused'
  }

  get renewing(): boolean {
    return !this.ended && !this.frozen && this.connected
  }

  async #kill(): Promise<void> {
    const { life } = this
    this.life = undefined
    await life?.child.kill()
  }

  #cutFromClients(cut: boolean): void {
    this.#cutClients = cut
    this.#parts.clients.setCut(cut)
  }

  /** The cut lasts until the last such fault is undone. */
  #cutFromStore(fault: string, cut: boolean): void {
    this.#parts.store.setCut(isAnyLeft(this.#storeCuts, fault, cut))
  }

  /** etcd refuses connections until the last such fault is undone. */
  #stopStore(fault: string, stopped: boolean): Promise<void> {
    return this.#parts.store.setAway(isAnyLeft(this.#storeStops, fault, stopped))
  }

  async #start(): Promise<void> {
    const { options, serviceClusterIpRange } = this.#around
    const file = (name: string): string => join(this.#parts.directory, name)
    const flags = [
      `--etcd-servers=${this.#parts.store.urls.join()}`,
      ...etcdFlags(this.#around),
      `--advertise-address=${this.address}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.#parts.port}`,
      `--cert-dir=${file('certificates')}`,
      `--service-cluster-ip-range=${serviceClusterIpRange}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${file('sa.pub')}`,
      `--service-account-signing-key-file=${file('sa.key')}`,
      `--token-auth-file=${file('tokens.csv')}`,
      // The store is not ours, so the server denies everybody except the drill, whose group is system:masters.
      '--authorization-mode=AlwaysDeny',
      '--disable-admission-plugins=ServiceAccount',
      '--profiling=false',
    ]
    const output = childOptions(this.#around, this.name, this.lifeCount + 1)
    const child = await Child.start(options.kubeApiserver ?? '', flags, output)
    const life = new ServerLife(child)
    this.life = life
    this.lifeCount++
    void this.#probe(life)
  }

  async #probe(life: ServerLife): Promise<void> {
    const server = new URL(`https://127.0.0.1:${this.#parts.port}`)
    let transport: HttpTransport | undefined
    while (!life.child.ended) {
      try {
        // The server creates its certificate some time after its start.
        const ca = await readFile(join(this.#parts.directory, 'certificates', 'apiserver.crt'), 'utf8')
        transport ??= new HttpTransport({ server, tls: { ca }, timeoutMs: 3_000 })
        const headers = { authorization: `Bearer ${this.#parts.token}` }
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

/** Adds a fault to `faults`, or removes it. Returns whether any fault is left. */
function isAnyLeft(faults: Set<string>, fault: string, isOn: boolean): boolean {
  if (isOn) faults.add(fault)
  else faults.delete(fault)
  return faults.size > 0
}
