import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fillStore, makeTemplate } from '../bench/mass-services.ts'
import { readyProgram } from '../bench/ready-program.ts'
import { startApiserver } from '../peers/apiserver.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { followKeys } from '../peers/stored-versions.ts'

// Needs a quiet machine. At most 120,000: the bench has no more addresses.

const services = Number(process.env.MANY_SERVICES ?? 100_000)
const address = '192.0.2.1'
const intervalMs = 1_000
const passMs = 10_000

test(`a lease of 3 s is renewed in time while the repairs read ${services} Services and pass over them`, async (t) => {
  const owner = openOwner(t)
  const template = await makeTemplate()
  const etcd = await startEtcd(owner, { flags: ['--quota-backend-bytes=8589934592'] })
  await fillStore(etcd, template, { services, nodePorts: 2_000 })
  const server = await startApiserver(owner, { kind: 'bare', etcd, flags: ['--endpoint-reconciler-type=none'] })
  const lease = await followKeys(owner, [etcd], [`/registry/masterleases/${address}`])
  const flags = [
    `--etcd-servers=${etcd.url}`,
    '--lease-ttl=3s',
    `--reconcile-interval=${intervalMs}ms`,
    `--repair-interval=${passMs}ms`,
  ]
  // Ready after the first passes; the lease is there before.
  const program = await readyProgram(await startMaster(owner, server, { address, flags }))
  await sleep(4 * passMs)
  program.assertRunning()
  const { versions } = lease
  assert.ok(versions.every(({ value }) => value !== undefined))
  const gaps = versions.slice(1).map(({ atMs }, index) => atMs - (versions[index]?.atMs ?? 0))
  t.diagnostic(`${versions.length} renewals, at most ${Math.max(...gaps).toFixed(0)} ms apart`)
  assert.ok(gaps.length > 30)
  assert.ok(Math.max(...gaps) < intervalMs + 500, `${Math.max(...gaps)} ms between two renewals`)
})
