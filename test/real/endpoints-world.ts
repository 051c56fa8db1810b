import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { Churn } from '../endpoints-model/churn.ts'
import { judge } from '../endpoints-model/judge.ts'
import type { ApiClient } from '../peers/api-client.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { HttpProxy } from '../peers/http-proxy.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { type Owner, temporaryDirectory } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'

const namespace = 'shop'
export const lease = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-bootstrap'

/**
 * The path from the program to its server: the program connects to the TCP proxy, which forwards to the TLS proxy,
 * which forwards to the server.
 */
export interface Proxies {
  readonly http: HttpProxy
  readonly tcp: TcpProxy
  readonly kubeconfig: string
}

export async function startProxies(owner: Owner, server: Apiserver): Promise<Proxies> {
  const http = await HttpProxy.start(owner, server)
  const tcp = await TcpProxy.start(owner, { target: Number(new URL(http.url).port) })
  const kubeconfig = writeKubeconfig(join(temporaryDirectory(owner, 'way'), 'kubeconfig'), {
    server: `https://127.0.0.1:${tcp.port}`,
    ca: server.authority.certificate,
    token: server.token,
  })
  return { http, tcp, kubeconfig }
}

/** Starts the program with nothing but the controllers of Endpoints and EndpointSlices. */
export function startControllers(
  owner: Owner,
  server: Pick<Apiserver, 'kubeconfig'>,
  flags: readonly string[] = ['--leader-elect=false'],
): Promise<Program> {
  return Program.start(owner, [
    'run',
    `--kubeconfig=${server.kubeconfig}`,
    '--controllers=endpoints,endpointslice,endpointslice-mirroring',
    '--endpoint-reconciler-type=none',
    '--health-bind-address=127.0.0.1:0',
    '--max-endpoints-per-slice=5',
    ...flags,
  ])
}

/**
 * A cluster on a real server whose Services and Pods come, change and go between {@link EndpointsWorld.go} and
 * {@link EndpointsWorld.rest}.
 */
export class EndpointsWorld {
  readonly churn: Churn
  readonly #api: ApiClient
  readonly #random
  #going: Promise<void> | undefined
  #stopped = false
  #writes = 0

  private constructor(api: ApiClient, seed: number) {
    this.#api = api
    this.#random = seededRandom(seed, 'pace')
    this.churn = new Churn({
      api: {
        send: (method, path, body, contentType) =>
          api.send(method, path, { body, ...(contentType && { contentType }) }),
      },
      random: seededRandom(seed, 'churn'),
      namespace,
      services: 8,
      pods: 40,
      nodes: 4,
      isDualStack: false,
      hasVandal: true,
      changesNodes: false,
      now: () => `${new Date().toISOString().slice(0, 19)}Z`,
      note: () => {},
    })
  }

  static async start(api: ApiClient, seed: number): Promise<EndpointsWorld> {
    for (const name of [namespace, 'kube-system']) {
      await api.send('POST', '/api/v1/namespaces', { body: { metadata: { name } } })
    }
    const world = new EndpointsWorld(api, seed)
    await world.churn.prepare()
    return world
  }

  /** A number below `limit`, by the seed. */
  any(limit: number): number {
    return randomInteger(this.#random, limit)
  }

  /**
   * Starts or continues the churn until {@link rest}. A change that the server does not accept meanwhile counts as not
   * made.
   */
  go(): void {
    if (this.#going !== undefined) return
    this.#stopped = false
    this.#going = this.#work()
    // `rest` rejects with the error.
    this.#going.catch(() => {})
  }

  async rest(): Promise<void> {
    this.#stopped = true
    await this.#going
    this.#going = undefined
  }

  /**
   * Stops the churn and waits until all endpoints are as they must be. Resolves with how long that took. Rejects with
   * what is wrong after `withinMs`.
   */
  async settled(withinMs: number): Promise<number> {
    await this.rest()
    const startedAt = performance.now()
    for (;;) {
      await this.churn.collectGarbage()
      const faults = judge(await this.churn.state(), { maxEndpointsPerSlice: 5 })
      const tookMs = performance.now() - startedAt
      if (faults.length === 0) return tookMs
      if (tookMs > withinMs) throw new Error(`after ${withinMs} ms:\n${faults.join('\n')}`)
      await sleep(100)
    }
  }

  /** From now on counts the writes, for {@link written}. */
  watch(owner: Owner): void {
    const end = new AbortController()
    owner.after(() => end.abort())
    for (const path of ['/api/v1/endpoints', '/apis/discovery.k8s.io/v1/endpointslices']) {
      const watching = this.#api.watch(`${path}?resourceVersion=0`, () => this.#writes++, end.signal)
      // The caller that waits notices.
      watching.catch(() => {})
    }
  }

  /** Resolves after `count` more writes of Endpoints and slices, or after `withinMs`. */
  async written(count: number, withinMs: number): Promise<void> {
    const enough = this.#writes + count
    const endMs = performance.now() + withinMs
    while (this.#writes < enough && performance.now() < endMs) await sleep(1)
  }

  /** The identity that holds the Lease. */
  async leader(): Promise<string> {
    const found = await this.#api.find<{ readonly spec?: { readonly holderIdentity?: string } }>(lease)
    return found?.spec?.holderIdentity ?? ''
  }

  async #work(): Promise<void> {
    while (!this.#stopped) {
      await this.churn.step().catch(async (error: Error) => {
        if (!isOutage(error)) throw error
        await sleep(100)
      })
      if (this.any(3) === 0) await sleep(this.any(40))
    }
  }
}

/** Whether the server did not answer at all, or answered that it cannot serve now. */
function isOutage(error: Error): boolean {
  return /ECONNREFUSED|ECONNRESET|other side closed|aborted|timeout|: 5\d\d$/i.test(`${error.message} ${error.cause}`)
}
