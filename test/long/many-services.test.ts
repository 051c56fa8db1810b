import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  fillStore,
  keysOf,
  type MassService,
  makeTemplate,
  massServices,
  partOf,
  type StoreTemplate,
  storedFor,
} from '../bench/mass-services.ts'
import { readyProgram } from '../bench/ready-program.ts'
import { stamped } from '../bench/stamped.ts'
import { startApiserver } from '../peers/apiserver.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { peakResidentMib, residentMib } from '../peers/footprint.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { removeValue, storeAtOnce, storedValues } from '../peers/stored-values.ts'
import { followKeys } from '../peers/stored-versions.ts'
import { untilPasses } from '../peers/until.ts'

// Needs a quiet machine. `MANY_SERVICES=1000000` takes about 18 GiB, nearly all of it for kube-apiserver and etcd.

const mass = { services: Number(process.env.MANY_SERVICES ?? 100_000), nodePorts: 2_000 }
const address = '192.0.2.1'
const range = '10.0.0.0/8'
const intervalMs = 1_000
const passMs = 10_000
const churnMs = 60_000
const changesPerSecond = 1_000
/** Writes per second; each contains a part of the changes. */
const writesPerSecond = 20

test(`a lease of 3 s is renewed in time while ${mass.services} Services are read, checked, repaired and changed`, async (t) => {
  const owner = openOwner(t)
  const template = await makeTemplate({ range, managers: mass.services <= 100_000 })
  const etcd = await startEtcd(owner, { flags: ['--quota-backend-bytes=8589934592'], onDisk: true })
  await fillStore(etcd, template, mass)
  t.diagnostic('stored')
  const flags = ['--endpoint-reconciler-type=none', `--service-cluster-ip-range=${range}`]
  // Without a limit its heap grows to twice the size of its content.
  const env = { GOMEMLIMIT: '18GiB' }
  const server = await startApiserver(owner, { kind: 'bare', etcd, flags, env, readyWithinMs: 600_000 })
  t.diagnostic(`the server is ready: ${residentMib(server.process.pid).toFixed(0)} MiB`)
  const services = massServices(mass)
  const keyOfLease = `/registry/masterleases/${address}`
  const lease = await followKeys(owner, [etcd], [keyOfLease])

  const startedAt = performance.now()
  const master = await startMaster(owner, server, {
    address,
    serviceClusterIpRange: range,
    flags: [
      `--etcd-servers=${etcd.url}`,
      '--lease-ttl=3s',
      `--reconcile-interval=${intervalMs}ms`,
      `--repair-interval=${passMs}ms`,
    ],
  })
  // The program is ready after the first passes; the lease exists before that.
  const program = await readyProgram(master, 600_000)
  const seconds = (performance.now() - startedAt) / 1000
  t.diagnostic(`ready after ${seconds.toFixed(1)} s, ${residentMib(program.process.pid).toFixed(0)} MiB resident`)
  await sleep(3 * passMs)
  const [first] = services as [MassService]
  t.diagnostic(`an IPAddress is back ${(await timeRepair(etcd, first)).toFixed(0)} ms after its deletion`)

  const churn = startChurn(owner, etcd, template, services.slice(-10_000))
  const repairs: number[] = []
  for (const service of services.slice(1, 11)) {
    await sleep(churnMs / 10)
    repairs.push(await timeRepair(etcd, service))
  }
  t.diagnostic(
    `${(await churn.end()).toFixed(0)} changes a second; meanwhile ${repairs.map((ms) => ms.toFixed(0)).join(', ')} ms`,
  )
  await sleep(2 * passMs)
  program.assertRunning()
  const { pid } = program.process
  t.diagnostic(`resident ${residentMib(pid).toFixed(0)} MiB, at most ${peakResidentMib(pid).toFixed(0)} MiB`)

  const { versions } = lease
  assert.ok(versions.every(({ value }) => value !== undefined))
  const gaps = versions.slice(1).map(({ atMs }, index) => atMs - (versions[index]?.atMs ?? 0))
  t.diagnostic(`${versions.length} renewals, at most ${Math.max(...gaps).toFixed(0)} ms apart`)
  assert.ok(gaps.length > 100)
  assert.ok(Math.max(...gaps) < intervalMs + 1_000, `${Math.max(...gaps)} ms between two renewals`)
  const { items } = await server.api.get<{ items: readonly { reason: string }[] }>('/apis/events.k8s.io/v1/events')
  const reasons = new Set(items.map(({ reason }) => reason))
  assert.deepEqual(
    [...reasons].filter((reason) => reason.startsWith('ClusterIP') && reason !== 'ClusterIPNotAllocated'),
    [],
  )
})

/** The time until an IPAddress whose key was removed exists again, in milliseconds. */
async function timeRepair(etcd: Etcd, service: MassService): Promise<number> {
  const startedAt = performance.now()
  const { ipAddress } = keysOf(service)
  assert.notEqual(await removeValue(etcd, ipAddress), undefined)
  const exists = async (): Promise<void> => assert.equal((await storedValues(etcd, ipAddress)).size, 1)
  await untilPasses(`${ipAddress} to be back`, exists, { withinMs: 60_000, everyMs: 20 })
  return performance.now() - startedAt
}

/** Changes a label of one Service after the other. `end` resolves to the number of changes made per second. */
function startChurn(
  owner: Owner,
  etcd: Etcd,
  template: StoreTemplate,
  services: readonly MassService[],
): { readonly end: () => Promise<number> } {
  const startedAt = performance.now()
  const perWrite = changesPerSecond / writesPerSecond
  let written = 0
  let ended = false
  const run = async (): Promise<void> => {
    while (!ended) {
      const put = new Map<string, Uint8Array>()
      for (let at = written; at < written + perWrite; at++) {
        const service = services[at % services.length] as MassService
        const text = `${partOf.slice(0, -2)}${String(Math.floor(at / services.length)).padStart(2, '0')}`
        put.set(keysOf(service).service, stamped(storedFor(service, template).service, new Map([[partOf, text]])))
      }
      await storeAtOnce(etcd, { put, remove: [] })
      written += perWrite
      await sleep(Math.max(0, startedAt + (written / changesPerSecond) * 1000 - performance.now()))
    }
  }
  const running = run()
  // A failure is reported by `end`.
  running.catch(() => {})
  const end = async (): Promise<number> => {
    ended = true
    await running
    return (written / (performance.now() - startedAt)) * 1000
  }
  owner.after(async () => void (await end().catch(() => {})))
  return { end }
}
