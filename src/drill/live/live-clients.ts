import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'
import type { ConnectionOutcome } from '../event.ts'
import type { ClientsPlan } from '../scenario/scenario.ts'
import type { TargetObserver } from '../target.ts'

/** The port on 127.0.0.1 that stands for a master's documentation address. */
export interface ClientTarget {
  readonly port: number
  readonly tls: boolean
}

interface ClientsOptions {
  readonly plan: ClientsPlan
  readonly clock: Clock
  readonly random: Random
  readonly targetsOf: (address: string) => readonly ClientTarget[]
  readonly connected: TargetObserver['connected']
}

/**
 * Clients of `kubernetes.default`, which choose addresses as if each had a kube-proxy of its own. Each client begins a
 * connection every `intervalMs`, whatever the result of its earlier connections. For each connection it picks at random
 * one of the addresses that the EndpointSlice listed `watchDelayMs` ago. Any answer counts as served. If several
 * masters share an address, the first master that does not refuse decides the outcome. An address without a master does
 * not answer.
 */
export class LiveClients {
  readonly #options: ClientsOptions
  #known: readonly string[] = []

  constructor(options: ClientsOptions) {
    this.#options = options
  }

  /** Sets the addresses that the slice lists from now on. Clients learn of the change `watchDelayMs` later. */
  listed(addresses: readonly string[]): void {
    this.#options.clock.schedule(this.#options.plan.watchDelayMs, () => {
      this.#known = addresses
    })
  }

  /** Makes connections until the signal is aborted. Then open connections are cut off and not reported. */
  async run(signal: AbortSignal): Promise<void> {
    const { count, intervalMs } = this.#options.plan
    const clients = Array.from({ length: count }, async (_, index) => {
      const underWay = new Set<Promise<void>>()
      let nextMs = this.#options.clock.monotonicMs() + ((index + this.#options.random.next()) / count) * intervalMs
      while (!signal.aborted) {
        await sleep(this.#options.clock, nextMs - this.#options.clock.monotonicMs(), signal).catch(() => {})
        if (signal.aborted) break
        nextMs += intervalMs
        const connection = this.#connect(`client-${index + 1}`, signal).finally(() => underWay.delete(connection))
        underWay.add(connection)
      }
      await Promise.all(underWay)
    })
    await Promise.all(clients)
  }

  async #connect(client: string, signal: AbortSignal): Promise<void> {
    const atMs = this.#options.clock.monotonicMs()
    const address = this.#known[randomInteger(this.#options.random, this.#known.length)] ?? ''
    const outcome = address === '' ? 'nobody' : await this.#dial(address, atMs + this.#options.plan.timeoutMs, signal)
    if (!signal.aborted) this.#options.connected({ atMs, client, address, outcome })
  }

  async #dial(address: string, untilMs: number, signal: AbortSignal): Promise<ConnectionOutcome> {
    const targets = this.#options.targetsOf(address)
    for (const target of targets) {
      const outcome = await this.#ask(target, untilMs, signal)
      if (outcome !== 'refused') return outcome
    }
    if (targets.length > 0) return 'refused'
    await sleep(this.#options.clock, untilMs - this.#options.clock.monotonicMs(), signal).catch(() => {})
    return 'black-holed'
  }

  #ask({ port, tls }: ClientTarget, untilMs: number, signal: AbortSignal): Promise<ConnectionOutcome> {
    return new Promise((resolve) => {
      const at = { host: '127.0.0.1', port }
      // The client sends no secret, so it need not verify the server.
      const socket: Socket = tls ? connectTls({ ...at, rejectUnauthorized: false }) : connectTcp(at)
      const end = (outcome: ConnectionOutcome): void => {
        cancel()
        signal.removeEventListener('abort', abort)
        socket.destroy()
        resolve(outcome)
      }
      const abort = (): void => end('black-holed')
      const cancel = this.#options.clock.schedule(untilMs - this.#options.clock.monotonicMs(), abort)
      signal.addEventListener('abort', abort, { once: true })
      socket.once(tls ? 'secureConnect' : 'connect', () => {
        socket.write('GET /version HTTP/1.1\r\nhost: kubernetes.default.svc\r\nconnection: close\r\n\r\n')
      })
      socket.once('data', () => end('served'))
      socket.once('error', () => end('refused'))
      socket.once('close', () => end('refused'))
    })
  }
}
