import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { newPod, oneOf, podLabels } from './churn-objects.ts'
import type { UserRequests } from './churn-requests.ts'

export interface PodChurnOptions {
  readonly random: Random
  readonly namespace: string
  readonly services: number
  readonly pods: number
  readonly nodes: number
  readonly isDualStack: boolean
  /** The time in conditions, in RFC 3339. */
  readonly now: () => string
  readonly note: (text: string) => void
}

interface KnownPod {
  readonly name: string
  readonly ips: readonly string[]
  isReady: boolean
  isTerminating: boolean
  isEnded: boolean
}

/** Pods that appear, turn ready and unready, move, end and disappear. Each action resolves with what it did. */
export class PodChurn {
  readonly #options: PodChurnOptions
  readonly #requests: UserRequests
  readonly #pods = new Map<string, KnownPod>()
  readonly #freeIps: string[] = []
  #madePods = 0
  #madeIps = 0

  constructor(options: PodChurnOptions, requests: UserRequests) {
    this.#options = options
    this.#requests = requests
  }

  /** Changes the readiness of a Pod, and changes it back after a wait. The desired state is then that from before. */
  async flap(wait: () => Promise<void>): Promise<void> {
    const pod = this.#anyPod(({ isEnded }) => !isEnded)
    if (pod === undefined) return
    await this.#status(pod.name, pod.ips, !pod.isReady)
    await wait()
    await this.#status(pod.name, pod.ips, pod.isReady)
    this.#options.note(`flap ${pod.name}`)
  }

  async add(): Promise<string | undefined> {
    const { random, namespace, pods, services, nodes, isDualStack } = this.#options
    if (this.#pods.size >= pods) return undefined
    const name = `pod-${this.#madePods++}`
    const node = `node-${randomInteger(random, nodes)}`
    const names = Array.from({ length: services }, (_, index) => `service-${index}`)
    const ips = this.#takeIps(isDualStack && random.next() < 0.8)
    const isReady = random.next() < 0.6
    const pod = newPod({ name, namespace, node, services: names }, random)
    if (!(await this.#requests.did('POST', this.#requests.path('pods'), pod))) return undefined
    this.#pods.set(name, { name, ips, isReady, isTerminating: false, isEnded: false })
    await this.#status(name, ips, isReady)
    return `add ${name} ${ips.join()} ${isReady ? 'ready' : 'not ready'}`
  }

  async flip(): Promise<string | undefined> {
    const pod = this.#anyPod(({ isEnded }) => !isEnded)
    if (pod === undefined) return undefined
    const isReady = !pod.isReady
    if (!(await this.#status(pod.name, pod.ips, isReady))) return this.#forget(pod)
    pod.isReady = isReady
    return `flip ${pod.name} to ${isReady ? 'ready' : 'not ready'}`
  }

  async delete(): Promise<string | undefined> {
    const pod = this.#anyPod(({ isTerminating, isEnded }) => !isTerminating && !isEnded)
    if (pod === undefined) return undefined
    if (!(await this.#requests.did('DELETE', this.#requests.path('pods', pod.name)))) return this.#forget(pod)
    pod.isTerminating = true
    return `delete ${pod.name}`
  }

  async remove(): Promise<string | undefined> {
    const { random } = this.#options
    const pod = this.#anyPod(({ isTerminating, isEnded }) => isTerminating || isEnded || random.next() < 0.2)
    if (pod === undefined) return undefined
    const isGone = await this.#requests.did('DELETE', `${this.#requests.path('pods', pod.name)}?gracePeriodSeconds=0`)
    this.#forget(pod)
    return isGone ? `remove ${pod.name}` : undefined
  }

  /** Ends only a ready Pod, because upstream does not check a Pod's phase when it changes. */
  async end(): Promise<string | undefined> {
    const pod = this.#anyPod(({ isReady }) => isReady)
    if (pod === undefined) return undefined
    const phase = oneOf(this.#options.random, ['Failed', 'Succeeded'])
    if (!(await this.#status(pod.name, pod.ips, false, phase))) return this.#forget(pod)
    // Its addresses are free while the Pod still exists.
    this.#freeIps.push(...pod.ips.filter(isV4))
    this.#pods.set(pod.name, { ...pod, ips: [], isReady: false, isEnded: true })
    return `end ${pod.name}: ${phase}`
  }

  async relabel(): Promise<string | undefined> {
    const pod = this.#anyPod(() => true)
    if (pod === undefined) return undefined
    const labels = podLabels(this.#options.random)
    if (!(await this.#requests.patch(this.#requests.path('pods', pod.name), { metadata: { labels } })))
      return this.#forget(pod)
    return `relabel ${pod.name} ${Object.values(labels)}`
  }

  async move(): Promise<string | undefined> {
    const pod = this.#anyPod(({ isTerminating, isEnded }) => !isTerminating && !isEnded)
    if (pod === undefined) return undefined
    const ips = this.#takeIps(pod.ips.length > 1)
    if (!(await this.#status(pod.name, ips, pod.isReady))) return this.#forget(pod)
    this.#freeIps.push(...pod.ips.filter(isV4))
    this.#pods.set(pod.name, { ...pod, ips })
    return `move ${pod.name} to ${ips.join()}`
  }

  #status(name: string, ips: readonly string[], isReady: boolean, phase = 'Running'): Promise<boolean> {
    const status = {
      phase,
      podIP: ips[0],
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False', lastTransitionTime: this.#options.now() }],
    }
    return this.#requests.patch(`${this.#requests.path('pods', name)}/status`, { status })
  }

  /** An address in each family. About half of the time, another Pod had it before. */
  #takeIps(isDualStack: boolean): readonly string[] {
    const reused = this.#freeIps.length > 8 || this.#options.random.next() < 0.5 ? this.#freeIps.shift() : undefined
    const number = this.#madeIps
    if (reused === undefined) this.#madeIps++
    const four = reused ?? `10.244.${number >> 8}.${number & 255}`
    const [, , high, low] = four.split('.').map(Number)
    return isDualStack ? [four, `fd00:10:244::${(high ?? 0) + 1}:${(low ?? 0) + 1}`] : [four]
  }

  #anyPod(matches: (pod: KnownPod) => boolean): KnownPod | undefined {
    const found = [...this.#pods.values()].filter(matches)
    return found.length === 0 ? undefined : oneOf(this.#options.random, found)
  }

  #forget({ name, ips }: KnownPod): undefined {
    this.#pods.delete(name)
    this.#freeIps.push(...ips.filter(isV4))
  }
}

function isV4(ip: string): boolean {
  return !ip.includes(':')
}
