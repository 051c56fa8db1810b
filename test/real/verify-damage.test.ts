import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { connectEtcdStore } from '../../src/config/load-configuration.ts'
import { serverProbe } from '../../src/kube/http-probe.ts'
import { connect } from '../../src/kube/kube-config.ts'
import { leases, services } from '../../src/kube/resources.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { CheckId } from '../../src/verify/cluster/check-ids.ts'
import { shellLine } from '../../src/verify/cluster/finding.ts'
import type { Probing } from '../../src/verify/cluster/probe-servers.ts'
import { checkCluster, failedIn } from '../../src/verify/cluster/verify-cluster.ts'
import { serviceRange } from '../peers/apiserver.ts'
import { binary } from '../peers/binaries.ts'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { RunningProcess } from '../peers/process.ts'
import { programPath, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { damages } from '../verify/cluster/damage.ts'
import { findingsOf } from '../verify/cluster/findings.ts'
import { addWorkload } from '../verify/cluster/workload.ts'
import { serverDamages, startFront } from './server-damage.ts'

/** The system clock, with a wall clock that is ahead. */
const laterBy = (ms: number): Clock => ({
  wallMs: () => systemClock.wallMs() + ms,
  monotonicMs: () => systemClock.monotonicMs(),
  schedule: (delayMs, callback) => systemClock.schedule(delayMs, callback),
})

test('each kind of damage fails only its own check, and its remedy repairs it', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  const { api, close } = await connect({ kubeconfig: server.kubeconfig, logger: silentLogger })
  t.after(close)
  // The bitmap of NodePorts is in etcd.
  const stores = [`--etcd-servers=${etcd.url}`, '--lease-store=kubernetes']
  const store = await connectEtcdStore({ endpoints: [etcd.url], clock: systemClock, random: systemRandom() })
  t.after(() => store.kv.close())
  const front = await startFront(owner, server.authority)
  const targets = new Map([
    ['192.0.2.1', { host: '127.0.0.1', port: server.port }],
    ['192.0.2.2', { host: '127.0.0.1', port: front.port }],
  ])
  const ask = serverProbe({ ca: server.authority.certificate, clock: systemClock, timeoutMs: 1_000 })
  const addresses = ['192.0.2.1', '192.0.2.2']
  const masters = await Promise.all(
    addresses.map((address, index) =>
      startMaster(owner, server, {
        address,
        host: `host-${index}`,
        flags: ['--controllers=auto,endpoints,endpointslice', '--on-shutdown=keep', ...stores],
      }),
    ),
  )
  await whenRight(server.api, { addresses, port: server.port }, 30_000)
  await addWorkload(api)
  const verify = (
    more: {
      readonly expectsRange?: boolean | undefined
      readonly probe?: Probing
      readonly watchMs?: number | undefined
      readonly only?: readonly CheckId[]
      readonly nodePorts?: string
      /** How far in the future the cluster is checked, in milliseconds. */
      readonly laterByMs?: number
    } = {},
  ) =>
    checkCluster({
      source: {
        api,
        etcd: { kv: store.kv, prefix: '/registry' },
        leaseStore: 'kubernetes',
        probe: more.probe,
        watchMs: more.watchMs,
      },
      clock: laterBy(more.laterByMs ?? 0),
      confirmAfterMs: 20,
      only: more.only,
      expect: {
        ...(more.expectsRange ? { serviceClusterIpRange: [parseCidr(serviceRange)] } : {}),
        ...(more.nodePorts === undefined ? {} : { serviceNodePortRange: parsePortRange(more.nodePorts) }),
      },
      signal: new AbortController().signal,
    })
  const holds = () =>
    untilPasses('everything to hold', async () => assert.deepEqual(findingsOf(await verify()), []), {
      withinMs: 30_000,
    })
  await holds()
  // From now on nobody corrects anything, and the leases outlast the test.
  await Promise.all(masters.map((master) => master.stop()))
  for (const { metadata } of (await api.list(leases, { namespace: 'kube-system' })).items) {
    if (metadata?.labels?.['apiserver-bootstrap/lease'] !== 'master') continue
    const body = { spec: { leaseDurationSeconds: 3_600 } }
    await api.patch(leases, { namespace: 'kube-system', name: metadata.name ?? '' }, { type: 'merge', body })
  }
  // A deleted namespace disappears only with this controller.
  await startControllerManager(owner, server, ['namespace-controller'])

  const bin = temporaryDirectory(owner, 'bin')
  const program = `#!/bin/sh\nexec '${process.execPath}' '${programPath()}' "$@"\n`
  writeFileSync(join(bin, 'apiserver-bootstrap'), program, { mode: 0o755 })
  const env = { ...process.env, PATH: [bin, dirname(binary('kubectl')), process.env.PATH].join(delimiter), HOME: bin }
  const kubectl = [`--kubeconfig=${server.kubeconfig}`]
  const flags = { kubectl, 'apiserver-bootstrap': [...kubectl, ...stores] }
  const repair = async (line: string): Promise<void> => {
    if (/^apiserver-bootstrap run /.test(line)) {
      const running = await RunningProcess.start(owner, {
        name: line,
        command: 'sh',
        args: ['-c', `exec ${line}`],
        env,
      })
      await holds()
      await running.stop()
      return
    }
    await new Promise<void>((resolve, reject) => {
      execFile('sh', ['-c', line], { env, timeout: 60_000 }, (error, stdout, stderr) =>
        error === null ? resolve() : reject(new Error(`${line}\n${stdout}${stderr}`)),
      )
    })
  }

  for (const { name, check, inflict, expectsRange, visibleAfterMs = 0 } of damages.filter(({ isSlow }) => !isSlow)) {
    await inflict(api, store.kv)
    const report = await untilPasses(
      `the failure of ${check}: ${name}`,
      async () => {
        const found = await verify({ expectsRange, laterByMs: visibleAfterMs })
        assert.deepEqual(failedIn(found), [check], JSON.stringify(findingsOf(found)))
        return found
      },
      { withinMs: 2_000 },
    )
    const lines = new Set(findingsOf(report).map(({ remedy }) => shellLine(remedy, flags)))
    for (const line of lines) await repair(line)
    await holds()
    t.diagnostic(`${check}: ${name}`)
  }

  const low = { namespace: 'default', name: 'low' }
  const ports = [{ port: 80, nodePort: 30_001 }]
  await api.create(services, { metadata: low, spec: { type: 'NodePort', ports } } as never)
  const demand = { only: ['node-ports'], nodePorts: '30050-32767' } as const
  const [finding] = findingsOf(await verify(demand))
  assert.equal(finding?.object, 'Service default/low')
  await repair(shellLine(finding.remedy, flags))
  assert.deepEqual(findingsOf(await verify(demand)), [])
  await api.delete(services, low)

  const world = { api, etcd: store.kv, front, stops: [] }
  const probe = { ask, targets }
  for (const { name, check, inflict, repairByHand } of serverDamages) {
    const watchMs = check === 'single-writer' ? 2_000 : undefined
    await inflict(world)
    // While several writers undo each other's changes, the check may read between two of their writes.
    const report = await untilPasses(
      name,
      async () => {
        const report = await verify({ probe, watchMs })
        assert.deepEqual(failedIn(report), [check], JSON.stringify(findingsOf(report)))
        return report
      },
      { withinMs: 20_000 },
    )
    const lines = findingsOf(report).map(({ remedy }) => shellLine(remedy, flags))
    if (repairByHand === undefined) for (const line of lines) await repair(line)
    await repairByHand?.(world)
    await holds()
    assert.deepEqual(findingsOf(await verify({ probe, watchMs })), [])
    t.diagnostic(`${check}: ${name}`)
  }
})
