import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { services } from '../../src/kube/resources.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { binary } from '../peers/binaries.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { startCluster } from '../peers/cluster.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { askHealth } from '../peers/program-health.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { ScrapedFleet } from './alerts/scraped-fleet.ts'
import { alertRules, ruleFile, Scrapes } from './alerts/scrapes.ts'

const never = new AbortController().signal
/** The alerts that a test has seen firing. */
const seen = new Set<string>()

/** Lets the real promtool evaluate the rules on what was scraped. */
async function fired(
  t: TestContext,
  scrapes: Scrapes,
  alerts: readonly string[],
  values: Readonly<Record<string, number>> = {},
): Promise<void> {
  const names = alerts.map((name) => `ApiserverBootstrap${name}`)
  const directory = await tempDir(t)
  writeFileSync(join(directory, 'rules.yaml'), JSON.stringify(ruleFile()))
  writeFileSync(join(directory, 'test.yaml'), JSON.stringify(scrapes.expecting(names, ['rules.yaml'], values)))
  const promtool = await spawnChild(t, binary('promtool'), ['test', 'rules', join(directory, 'test.yaml')])
  const { code } = await promtool.exited
  assert.equal(code, 0, `${promtool.stdout()}${promtool.stderr()}`)
  for (const name of names) seen.add(name)
}

describe('alert rules on the scraped metrics of fleets', () => {
  after(() =>
    assert.deepEqual(
      alertRules.map(({ alert }) => alert).filter((alert) => !seen.has(alert)),
      [],
    ),
  )

  test('promtool accepts the rules', async (t) => {
    const directory = await tempDir(t)
    writeFileSync(join(directory, 'rules.yaml'), JSON.stringify(ruleFile()))
    const promtool = await spawnChild(t, binary('promtool'), [
      'check',
      'rules',
      '--lint-fatal',
      join(directory, 'rules.yaml'),
    ])
    assert.equal((await promtool.exited).code, 0, promtool.stderr())
  })

  test('kubectl renders the kustomization', async (t) => {
    const kubectl = await spawnChild(t, binary('kubectl'), ['kustomize', 'config/monitoring'])
    assert.equal((await kubectl.exited).code, 0, kubectl.stderr())
    const kinds = [...kubectl.stdout().matchAll(/^kind: (\w+)$/gm)].map(([, kind]) => kind)
    assert.deepEqual(kinds.sort(), ['NetworkPolicy', 'PrometheusRule', 'Service', 'ServiceMonitor'])
  })

  test('no alert fires in a quiet hour, nor while all sidecars and servers restart in turn', async (t) => {
    const run = await ScrapedFleet.start()
    const { fleet, scrapes } = run
    await run.minutes(60)
    for (const { name: master } of fleet.target.members) {
      for (const part of ['sidecar', 'server'] as const) {
        await fleet.perform({ type: 'terminate', master, part })
        await run.minutes(1)
        await fleet.perform({ type: 'start', master, part })
        await run.minutes(2)
      }
    }
    await fired(t, scrapes, [])
  })

  test('only MasterOffTheList fires after a machine dies, and its value is the number of masters still listed', async (t) => {
    const run = await ScrapedFleet.start()
    await run.minutes(5)
    await run.fleet.perform({ type: 'retire', master: 'master-3' })
    await run.minutes(10)
    // The summary states how many masters are listed now, not how many were.
    await fired(t, run.scrapes, ['MasterOffTheList'], { ApiserverBootstrapMasterOffTheList: 2 })
  })

  for (const [cause, begin] of [
    ['the lease store cannot be reached', { type: 'cut', path: 'store' }],
    ['the API server is dead', { type: 'kill', part: 'server' }],
  ] as const) {
    test(`only LeaseRenewalFailing fires while ${cause}`, async (t) => {
      const run = await ScrapedFleet.start()
      await run.minutes(5)
      await run.fleet.perform({ ...begin, master: 'master-1' })
      await run.minutes(4.5)
      await fired(t, run.scrapes, ['LeaseRenewalFailing'])
    })
  }

  test('only WritersFighting fires while another client keeps overwriting the Endpoints', async (t) => {
    const run = await ScrapedFleet.start()
    await run.minutes(1)
    for (let second = 0; second < 180; second++) {
      for (let time = 0; time < 5; time++) {
        await run.fleet.perform({ type: 'damage', damage: 'endpoints-with-a-foreign-address' })
        await run.fleet.advance(200)
      }
      if (second % 30 === 29) await run.scrape()
    }
    await fired(t, run.scrapes, ['WritersFighting'])
  })

  test('only DutyDegraded fires while the server refuses the requests of a duty', async (t) => {
    const run = await ScrapedFleet.start()
    const rule = { fault: { type: 'status', status: 403 }, resource: 'namespaces' } as const
    await run.fleet.perform({ type: 'kill', master: 'master-1', part: 'sidecar' })
    await run.fleet.perform({ type: 'fault', master: 'master-1', rule })
    await run.fleet.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
    await run.minutes(5)
    await fired(t, run.scrapes, ['DutyDegraded'])
  })

  test('only RepairStuck fires while a range cannot be decoded', async (t) => {
    const run = await ScrapedFleet.start()
    const { etcd } = run
    const key = '/registry/ranges/servicenodeports'
    const stored = await run.fleet.target.drive(etcd.get(key, never))
    assert.ok(stored)
    await run.fleet.target.drive(etcd.update(key, new Uint8Array([1, 2, 3]), stored.modRevision, { signal: never }))
    await run.minutes(8)
    await fired(t, run.scrapes, ['RepairStuck'])
  })

  test('only AllocationsWrong fires while a Service has a NodePort outside the range', async (t) => {
    const run = await ScrapedFleet.start({ serviceNodePortRange: parsePortRange('31000-32767') })
    const spec = { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080, protocol: 'TCP' }] }
    const service = { metadata: { namespace: 'default', name: 'a' }, spec }
    await run.fleet.target.drive(run.api.create(services, service))
    await run.minutes(16)
    await fired(t, run.scrapes, ['AllocationsWrong'])
  })

  test('only CredentialsExpiring and EventLoopLate fire when a certificate expires soon and the process is suspended', async (t) => {
    const owner = openOwner(t)
    const { server } = await startCluster(owner, { kind: 'bare' })
    const soon = new CertificateAuthority().issue({ commonName: 'somebody', validForMs: 12 * 3_600_000 })
    const base64 = (text: string): string => Buffer.from(text).toString('base64')
    const kubeconfig = writeKubeconfig(`${server.kubeconfig}-soon`, {
      server: server.url,
      ca: server.authority.certificate,
      user: {
        token: server.token,
        'client-certificate-data': base64(soon.certificate),
        'client-key-data': base64(soon.key),
      },
    })
    const program = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig })
    const scrapes = new Scrapes({ intervalSeconds: 5, startSeconds: Math.floor(Date.now() / 1000) })
    for (let scrape = 0; scrape < 15; scrape++) {
      scrapes.add(new Map([['192.0.2.1', (await askHealth(program, '/metrics')).text]]))
      if (scrape === 5) program.process.signal('SIGSTOP')
      await sleep(5_000)
      program.process.signal('SIGCONT')
    }
    await fired(t, scrapes, ['CredentialsExpiring', 'EventLoopLate'])
  })
})
