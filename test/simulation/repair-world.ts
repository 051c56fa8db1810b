import { type ApiServer, createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { SimulatedEtcd } from '../../src/drill/simulator/etcd-link.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { namespaces, serviceCidrs } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { type ClockView, VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { itemRangesOf, type RepairComposition } from './repair-composition.ts'
import type { RepairCoverage } from './repair-coverage.ts'
import { RepairJudge } from './repair-judge.ts'
import { Ledger } from './repair-ledger.ts'
import { RepairMaster } from './repair-master.ts'
import { ServiceStorage } from './repair-service-storage.ts'
import { Vandal } from './repair-vandal.ts'
import { RepairVerdicts } from './repair-verdicts.ts'

/** A cluster whose kube-apiservers store Services and repair nothing, and whose masters run our repairs. */
export class RepairWorld {
  readonly time = new VirtualClock()
  readonly verdicts = new RepairVerdicts(() => this.time.nowMs)
  /** True time. */
  readonly clock: ClockView
  readonly server: ApiServer
  readonly etcd: SimulatedEtcd
  readonly ledger: Ledger
  readonly judge: RepairJudge
  readonly coverage: RepairCoverage
  readonly servers: readonly ServiceStorage[]
  readonly masters: readonly RepairMaster[]
  readonly vandal: Vandal
  readonly #composition: RepairComposition

  constructor(
    seed: number,
    composition: RepairComposition,
    coverage: RepairCoverage,
    transport: typeof inProcessTransport,
  ) {
    const { time } = this
    const { book } = composition
    this.#composition = composition
    this.coverage = coverage
    this.clock = time.view()
    const { clock } = this
    const random = seededRandom(seed, 'store')
    this.server = createApiServer({ clock, random, serviceAllocators: 'none' })
    this.etcd = new SimulatedEtcd(time, 'etcd')
    this.ledger = new Ledger(time, itemRangesOf(composition))
    const { server, etcd, ledger } = this
    const store = transport(server)
    const apiOf = (by: string): KubeApi => {
      return restKubeApi({
        transport: ledger.transport(store, by, () => etcd.down),
        clock,
        random: seededRandom(seed, by),
        fieldManager: by,
      })
    }
    const kvOf = (by: string) => ledger.kv(etcd.store.client(), by, () => etcd.down)
    const api = apiOf('server')
    this.servers = Array.from({ length: composition.kubeApiservers }, (_, index) => {
      const name = `kube-apiserver-${index + 1}`
      const chance = seededRandom(seed, name)
      return new ServiceStorage({ name, ledger, api, etcd: kvOf('server'), clock, random: chance, book, coverage })
    })
    this.vandal = new Vandal({
      ledger,
      api: apiOf('vandal'),
      etcd: kvOf('vandal'),
      random: seededRandom(seed, 'vandal'),
      book,
    })
    this.masters = Array.from({ length: composition.masters }, (_, index) => {
      const name = `master-${index + 1}`
      return new RepairMaster({ name, seed, time, clock, composition, ledger, store, etcd })
    })
    const { verdicts } = this
    this.judge = new RepairJudge({ ledger, composition, coverage, verdicts, masters: () => this.masters })
    ledger.follow(this.judge)
  }

  /** Creates what a cluster has before its first Service. Without `withBitmaps` our repairs must create the bitmaps. */
  async prepare(withBitmaps: boolean): Promise<void> {
    const { cidrs, book } = this.#composition
    const api = restKubeApi({
      transport: inProcessTransport(this.server),
      clock: this.clock,
      random: seededRandom(1, 'first'),
    })
    const { signal } = new AbortController()
    for (const name of ['default', 'shop']) await api.create(namespaces, { metadata: { name } })
    await api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs } })
    const { addresses, nodePorts } = this.ledger.ranges
    // Only servers that record ClusterIPs in bitmaps have bitmaps for them.
    if (!withBitmaps) return
    for (const { key, text } of book === 'objects' ? [nodePorts] : [...addresses, nodePorts]) {
      await this.etcd.store
        .client()
        .create(key, encodeRangeAllocation({ range: text, data: new Uint8Array() }), { signal })
    }
  }

  /** Lets time pass, and judges after every event. */
  async advance(ms: number): Promise<void> {
    await this.time.runUntil(() => {
      this.judge.check()
      return false
    }, ms)
  }
}
