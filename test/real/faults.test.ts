import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { auditIn, logOf } from '../peers/audit-lines.ts'
import { startCluster } from '../peers/cluster.ts'
import { footprintOf } from '../peers/footprint.ts'
import { type Fault, HttpProxy } from '../peers/http-proxy.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import { untilPasses } from '../peers/until.ts'
import { assertLoggedOnce } from './logged-once.ts'

const address = '192.0.2.1'
const quietMs = 3000
const faultMs = 8000
/** Long enough for the program to give up a silent stream. */
const correctedWithinMs = 60_000
/** Longer than an idle connection stays in the program's pool. */
const idleConnectionsGoneMs = 75_000

describe('the program recovers from faults between it and its server', () => {
  const owner = openOwner({ after })
  let server: Apiserver
  let http: HttpProxy
  let tcp: TcpProxy
  let master: Program
  let tokenFile: string
  let watches: number

  before(async () => {
    ;({ server } = await startCluster(owner, { kind: 'bare' }))
    // The program connects to the TCP proxy, which forwards to the TLS proxy, which forwards to the server.
    http = await HttpProxy.start(owner, server)
    tcp = await TcpProxy.start(owner, { target: Number(new URL(http.url).port) })
    const directory = temporaryDirectory(owner, 'proxy')
    tokenFile = join(directory, 'token')
    writeFileSync(tokenFile, server.token)
    const kubeconfig = writeKubeconfig(join(directory, 'kubeconfig'), {
      server: `https://127.0.0.1:${tcp.port}`,
      ca: server.authority.certificate,
      tokenFile,
    })
    master = await startMaster(owner, server, { address, kubeconfig })
    await right()
    await sleep(quietMs)
    watches = http.watches
    assert.ok(watches > 0)
  })

  const right = () => whenRight(server.api, { addresses: [address], port: server.port }, correctedWithinMs)

  /**
   * Disturbs the connection, damages an object that the program manages, and expects the program to recover from both.
   */
  async function survives(fault: () => Promise<void>): Promise<void> {
    const linesBefore = master.log.length
    const asked = http.requests.length
    await fault()
    const requests = http.requests.length - asked
    assert.ok(requests < 400, `${requests} requests during the fault`)
    await server.api.delete(paths.slice)
    await right()
    await untilPasses('as many watches as before', () => assert.equal(http.watches, watches), {
      withinMs: correctedWithinMs,
    })
    await sleep(quietMs)
    assertLoggedOnce(master.log.slice(linesBefore))
    master.assertRunning()
  }

  test('all connections are cut', () => survives(async () => tcp.cut()))

  test('all streams are half-closed', () => survives(async () => tcp.halfClose()))

  test('connections are refused', () =>
    survives(async () => {
      await tcp.refuse()
      await sleep(faultMs)
      await tcp.accept()
    }))

  test('all packets are dropped in both directions', () =>
    survives(async () => {
      tcp.blackHole(true)
      await sleep(faultMs)
      tcp.blackHole(false)
    }))

  test('every answer is late', () =>
    survives(async () => {
      tcp.delay(300)
      await sleep(faultMs)
      tcp.delay(0)
    }))

  const everything = (): boolean => true
  const isWatch = (path: string): boolean => path.includes('watch=')
  const faults: Readonly<Record<string, { readonly matches: (path: string) => boolean; readonly fault: Fault }>> = {
    'every request is answered with 500': { matches: everything, fault: { answer: 'status', status: 500 } },
    'every request is answered with 429 and Retry-After': {
      matches: everything,
      fault: { answer: 'status', status: 429, retryAfterSeconds: 1 },
    },
    'every request is answered with garbage': { matches: everything, fault: { answer: 'garbage' } },
    'every watch is answered with garbage': { matches: isWatch, fault: { answer: 'garbage' } },
    'every answer is cut off': { matches: everything, fault: { answer: 'torn' } },
  }
  for (const [name, { matches, fault }] of Object.entries(faults)) {
    test(name, () =>
      survives(async () => {
        const { failed } = http
        http.fail(matches, fault)
        if (matches === isWatch) http.cutWatches()
        else http.cut()
        await sleep(faultMs)
        http.heal()
        assert.ok(http.failed > failed, 'the fault affected requests')
      }),
    )
  }

  test('the server refuses the old token before the new one is in the file', () =>
    survives(async () => {
      http.acceptOnly('the-second-token')
      await sleep(2000)
      writeFileSync(tokenFile, 'the-second-token')
    }))

  test('a stored write whose answer is torn has the outcome unknown in the audit trail', async () => {
    const linesBefore = master.log.length
    http.fail((path) => path.includes('/endpointslices?fieldManager='), { answer: 'torn' })
    await server.api.delete(paths.slice)
    await right()
    http.heal()
    await sleep(quietMs)
    const lines = auditIn(logOf({ log: master.log.slice(linesBefore) }))
    assert.deepEqual(
      lines.map(({ verb, objectRef, outcome, after }) => [verb, objectRef.resource, outcome, after]),
      [['create', 'endpointslices', 'unknown', [address]]],
    )
  })

  test('afterwards no connection is left over', async () => {
    // One connection for each watch, and those that the probes and the renewals share.
    const most = watches + 2
    await untilPasses(
      `at most ${most} connections`,
      () => {
        assert.ok(tcp.connections <= most, `${tcp.connections} at the proxy`)
        const { connections } = footprintOf(master.process.pid, [tcp.port])
        assert.ok(connections <= most, `${connections} at the program`)
      },
      { withinMs: idleConnectionsGoneMs, everyMs: 500 },
    )
    assert.equal(http.watches, watches)
  })
})
