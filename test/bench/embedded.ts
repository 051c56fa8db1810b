import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { peakResidentMib, residentMib } from '../peers/footprint.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import { withTimeout } from '../support/with-timeout.ts'
import { RawClient, type ServerAccess } from './embedded-client.ts'
import { startServe, timeServeStarts, timeStartsInProcess } from './embedded-start.ts'
import { type Bound, median, type Report, shown } from './report.ts'
import { podManifest, podMarks, podName, type WorkloadShape } from './workload-objects.ts'

const pods = 10_000
const shape: WorkloadShape = { namespaces: 1, services: 200, podsPerService: 50, nodes: 100 }
const atOnce = 16
const watchers = 100
/** Requests of each kind in a round, one after the other, on each server. */
const perRound = 20
const collection = '/api/v1/namespaces/default/pods'

const rows = {
  create: 'create',
  createAtOnce: `create, ${atOnce} at once`,
  get: 'get',
  list: `list of ${pods}`,
  merge: 'merge patch',
  strategic: 'strategic merge patch',
  watch: `write to event at all of ${watchers} watches`,
} as const

/** One of the servers, and what was measured on it. */
class Subject {
  readonly name: string
  readonly client: RawClient
  readonly #times = new Map<keyof typeof rows, number[]>()

  constructor(owner: Owner, name: string, access: ServerAccess) {
    this.name = name
    this.client = new RawClient(access)
    owner.after(() => this.client.close())
  }

  /** Records how long `action` takes, divided by `count`, the number of things that it does. */
  async time(row: keyof typeof rows, action: () => Promise<unknown>, count = 1): Promise<void> {
    const startedMs = performance.now()
    await action()
    const times = this.#times.get(row) ?? []
    this.#times.set(row, times)
    times.push((performance.now() - startedMs) / count)
  }

  median(row: keyof typeof rows): number {
    return median(this.#times.get(row) ?? [])
  }
}

/** Compares the embedded API server with kube-apiserver on an etcd that does not wait for its disk. */
export async function measureEmbedded({ rounds }: { readonly rounds: number }): Promise<Report> {
  const inProcessMs = median(await timeStartsInProcess(50))
  const starts = await timeServeStarts(10)
  const [readyMs, nodeMs] = [median(starts.serve), median(starts.node)]
  console.error(`embedded: ready in ${shown(readyMs)} ms, in a process ${shown(inProcessMs)} ms`)
  const owner = openOwner()
  try {
    const { etcd, server } = await startCluster(owner, { kind: 'stock' })
    const served = await startServe(owner)
    const ours = new Subject(owner, 'embedded', served.access)
    const peer = new Subject(owner, 'kube-apiserver', { ...server, ca: server.authority.certificate })
    const subjects = [ours, peer]
    const manifest = await completeManifest(server)

    await inTurns(subjects, rounds, (subject, round) => createPods(subject, manifest, round, rounds))
    const filledMib = residentMib(served.process.pid)
    const peerMib = residentMib(server.process.pid) + residentMib(etcd.process.pid)
    await inTurns(subjects, rounds, readAndPatch)
    const fanOuts = new Map(
      await Promise.all(subjects.map(async (subject) => [subject, await openWatches(subject)] as const)),
    )
    await inTurns(subjects, rounds, (subject, round) => writeToWatches(subject, round, fanOuts.get(subject) as FanOut))

    const ratios = Object.entries(rows).map(([key, name]) => {
      const [mine, theirs] = subjects.map((subject) => subject.median(key as keyof typeof rows)) as [number, number]
      return { name, mine, theirs, ratio: mine / theirs }
    })
    const peakMib = peakResidentMib(served.process.pid)
    const [podBytes = 0, peerPodBytes = 0] = await Promise.all(subjects.map(sizeOfPod))
    return {
      title: 'Embedded API server',
      method:
        `${rounds} rounds on \`serve\` and on a stock kube-apiserver whose etcd runs with --unsafe-no-fsync, in turns, each on its own process, all on the same cores; ` +
        `one client with keep-alive connections and TLS, which parses nothing. First they get ${pods} Pods with all defaults, ${perRound} in a round one after the other; ` +
        `a Pod is ${shown(podBytes / 1000)} kB of JSON, in kube-apiserver ${shown(peerPodBytes / 1000)} kB. Then ${perRound} requests of each kind in a round, and a list. Medians, in milliseconds from ` +
        `the request to the last byte of the answer; of ${atOnce} at once, the time for all divided by their number. "Ready": from exec to the printed line; ` +
        '"in a test": `startApiServer`, 50 times in one process. Resident is VmRSS; of the peer, that of both processes.',
      header: ['', 'embedded', 'kube-apiserver', 'of it'],
      rows: [
        ...ratios.map(({ name, mine, theirs, ratio }) => [`${name}, ms`, shown(mine), shown(theirs), shown(ratio)]),
        ['ready, ms', shown(readyMs), '–', '–'],
        ['a Node that does nothing, from exec to its end, ms', shown(nodeMs), '–', '–'],
        ['ready in a test, ms', shown(inProcessMs), '–', '–'],
        [`resident with ${pods} Pods, MiB`, shown(filledMib), shown(peerMib), shown(filledMib / peerMib)],
        ['resident, the most, MiB', shown(peakMib), '–', '–'],
      ],
      bounds: [
        ...ratios.map(
          ({ name, ratio }): Bound => ({ name: `${name}, of the peer’s`, value: ratio, limit: 1, unit: '' }),
        ),
        { name: 'ready', value: readyMs, limit: 300, unit: 'ms' },
        { name: 'ready in a test', value: inProcessMs, limit: 15, unit: 'ms' },
        { name: `resident, the most, with ${pods} Pods`, value: peakMib, limit: 250, unit: 'MiB' },
      ],
    }
  } finally {
    await owner.close()
  }
}

/** Runs each step on both servers, in an order that alternates from round to round. */
async function inTurns(
  subjects: readonly Subject[],
  rounds: number,
  step: (subject: Subject, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) await step(subject, round)
  }
}

/** A Pod as kube-apiserver completes it, so that both servers hold the same fields. */
async function completeManifest({ api }: Apiserver): Promise<(index: number) => string> {
  const first = podMarks(0, shape)
  const create = () => api.create<{ readonly spec: object }>(collection, podManifest(first))
  // Retries until its namespace exists.
  const { spec } = await untilPasses('a Pod', create, { withinMs: 20_000 })
  await api.send('DELETE', `${collection}/${first.pod}?gracePeriodSeconds=0`)
  return (index) => {
    const manifest = podManifest(podMarks(index, shape)) as { readonly spec: { readonly nodeName: string } }
    return JSON.stringify({ ...manifest, spec: { ...spec, nodeName: manifest.spec.nodeName } })
  }
}

async function createPods(
  subject: Subject,
  manifest: (index: number) => string,
  round: number,
  rounds: number,
): Promise<void> {
  const [from, to] = [round, round + 1].map((part) => Math.floor((part * pods) / rounds)) as [number, number]
  const bodies = Array.from({ length: to - from }, (_, index) => manifest(from + index))
  const create = (body: string) => subject.client.send({ method: 'POST', path: collection, body })
  for (const body of bodies.splice(0, perRound)) await subject.time('create', () => create(body))
  const count = bodies.length
  const worker = async (): Promise<void> => {
    for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) await create(body)
  }
  await subject.time('createAtOnce', () => Promise.all(Array.from({ length: atOnce }, worker)), count)
}

async function readAndPatch(subject: Subject, round: number): Promise<void> {
  const { client } = subject
  for (let index = 0; index < perRound; index++) {
    const path = `${collection}/${podName(round * perRound + index, shape)}`
    await subject.time('get', () => client.send({ method: 'GET', path }))
    for (const type of ['merge', 'strategic'] as const) {
      const contentType = `application/${type === 'merge' ? 'merge-patch' : 'strategic-merge-patch'}+json`
      const body = labelPatch(type, `${round}`)
      await subject.time(type, () => client.send({ method: 'PATCH', path, body, contentType }))
    }
  }
  await subject.time('list', () => client.send({ method: 'GET', path: collection }))
}

function labelPatch(label: string, value: string): string {
  return JSON.stringify({ metadata: { labels: { [label]: value } } })
}

/** Open watches that are counted together. */
interface FanOut {
  /** Resolves when each watch has received one more event. Rejects if one ends. */
  nextEvent(): Promise<void>
}

async function openWatches({ client, name }: Subject): Promise<FanOut> {
  let missing = 0
  let waiting: PromiseWithResolvers<void> | undefined
  let failure: Error | undefined
  const onEvent = (): void => {
    missing--
    if (missing === 0) waiting?.resolve()
  }
  const onEnd = (cause?: Error): void => {
    failure = new Error(`a watch of ${name} has ended`, { cause })
    waiting?.reject(failure)
  }
  const list = JSON.parse((await client.send({ method: 'GET', path: `${collection}?limit=1` })).toString('utf8'))
  const path = `${collection}?watch=true&resourceVersion=${list.metadata.resourceVersion}`
  await Promise.all(Array.from({ length: watchers }, () => client.watch(path, onEvent, onEnd)))
  return {
    nextEvent() {
      if (failure !== undefined) throw failure
      missing += watchers
      waiting = Promise.withResolvers()
      return withTimeout(waiting.promise, 30_000, `an event at all watches of ${name}`)
    },
  }
}

async function writeToWatches(subject: Subject, round: number, watches: FanOut): Promise<void> {
  for (let index = 0; index < perRound; index++) {
    const path = `${collection}/${podName(round * perRound + index, shape)}`
    const body = labelPatch('watched', `${round}`)
    const contentType = 'application/merge-patch+json'
    const write = () => subject.client.send({ method: 'PATCH', path, body, contentType })
    await subject.time('watch', () => Promise.all([watches.nextEvent(), write()]))
  }
}

async function sizeOfPod({ client }: Subject): Promise<number> {
  const { length } = await client.send({ method: 'GET', path: `${collection}/${podName(pods - 1, shape)}` })
  return length
}
