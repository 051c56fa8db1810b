import assert from 'node:assert/strict'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointSlice, KubeEvent } from '../../src/kube/resources.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import { startFakeReadyz } from '../peers/fake-readyz.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { listedIn, listedInSlices, paths, type Watched, watchState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { metricOf } from '../peers/program-health.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { untilPasses } from '../peers/until.ts'

const clusters = new ReusedClusters({ kind: 'bare' })

const steady = '192.0.2.1'
const troubled = '192.0.2.2'
const shortLease = ['--lease-ttl=3s', '--reconcile-interval=1s']
const boundMs = 30_000
const HOUR_MS = 3_600_000

interface Setup {
  readonly owner: Owner
  readonly etcd: Etcd
  readonly server: Apiserver
  readonly directory: string
  /** The kubeconfig of the troubled master. */
  readonly kubeconfig: string
  /** Replaces this kubeconfig in one step with one for another user. */
  rewrite(user: Readonly<Record<string, unknown>>): void
  /** Starts a steady master and the troubled one; resolves when both are listed. */
  start(
    flags: readonly string[],
    ...ofTroubled: readonly string[]
  ): Promise<{
    readonly master: Program
    readonly watched: Watched
    /** The index in the history from which both are listed. */
    readonly from: number
  }>
}

async function setUp(t: TestContext): Promise<Setup> {
  const owner = openOwner(t)
  const { etcd, server } = await clusters.take(owner)
  const directory = temporaryDirectory(owner, 'credentials')
  const kubeconfig = join(directory, 'kubeconfig')
  return {
    owner,
    etcd,
    server,
    directory,
    kubeconfig,
    rewrite(user) {
      writeKubeconfig(`${kubeconfig}.next`, { server: server.url, ca: server.authority.certificate, user })
      renameSync(`${kubeconfig}.next`, kubeconfig)
    },
    async start(flags, ...ofTroubled) {
      const watched = await watchState(owner, server.api)
      const [master] = await Promise.all([
        startMaster(owner, server, { address: troubled, kubeconfig, flags: [...flags, ...ofTroubled] }),
        startMaster(owner, server, { address: steady, flags }),
      ])
      await watched.whenRight({ addresses: [steady, troubled], port: server.port }, boundMs)
      return { master, watched, from: watched.history.length - 1 }
    },
  }
}

/** Fails if a watcher ever saw one of the two missing in Endpoints or in the slices. */
function assertListedThroughout({ history }: Watched, from: number): void {
  for (const { state } of history.slice(from)) {
    assert.deepEqual(listedIn(state.endpoints), [steady, troubled])
    // When somebody deletes the slice, the watcher sees none.
    if (state.slices.length > 0) assert.deepEqual(listedInSlices(state.slices), [steady, troubled])
  }
}

/** Waits until the program writes: only the program can create the slice again. */
async function assertWrites({ api }: Apiserver, master: Program): Promise<void> {
  const before = await api.get<EndpointSlice>(paths.slice)
  await api.send('DELETE', paths.slice)
  await untilPasses(
    'the slice to be made anew',
    async () => {
      master.assertRunning()
      const slice = await api.get<EndpointSlice>(paths.slice)
      assert.notEqual(slice.metadata?.uid, before.metadata?.uid)
    },
    { withinMs: 10_000 },
  )
}

/** A client certificate of an administrator, as embedded in a kubeconfig. */
function certificateUser({ authority }: Apiserver, validForMs: number): Readonly<Record<string, unknown>> {
  const { certificate, key } = authority.issue({ commonName: 'sidecar', organizations: ['system:masters'], validForMs })
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  return { 'client-certificate-data': base64(certificate), 'client-key-data': base64(key) }
}

const expiryOfCertificate = 'apiserver_bootstrap_credentials_expiration_timestamp_seconds{kind="client-certificate"}'

describe('expired or missing credentials', () => {
  after(() => clusters.close())

  for (const store of ['etcd', 'kubernetes'] as const) {
    test(`a master stays listed while its client certificate is expired and renewed late (${store})`, async (t) => {
      const { etcd, server, kubeconfig, rewrite, start } = await setUp(t)
      rewrite(certificateUser(server, HOUR_MS))
      // Without credentials a master cannot renew leases in the API: the next certificate must come before they expire.
      const flags =
        store === 'etcd'
          ? [`--etcd-servers=${etcd.url}`, ...shortLease]
          : ['--lease-ttl=15s', '--reconcile-interval=2s']
      const { master, watched, from } = await start(flags)
      const expiresAtMs = Date.now() + 6_000
      rewrite(certificateUser(server, 6_000))
      await untilPasses(
        'the metric to show the end',
        async () => {
          const endMs = ((await metricOf(master, expiryOfCertificate)) ?? 0) * 1000
          assert.ok(Math.abs(endMs - expiresAtMs) < 2_000, `${endMs - expiresAtMs} ms`)
        },
        { withinMs: 6_000 },
      )

      await master.waitForLog(/does not accept the credentials \(401\)/, boundMs)
      await sleep(store === 'etcd' ? 8_000 : 4_000)
      master.assertRunning()
      // At first only half of the file is there, as when a program writes it in place.
      writeFileSync(kubeconfig, readFileSync(kubeconfig, 'utf8').slice(0, 700))
      await sleep(1_500)
      rewrite(certificateUser(server, HOUR_MS))
      await master.waitForLog(/accepts the credentials again/, 10_000)
      await sleep(4_000)
      assertListedThroughout(watched, from)
      assert.ok(((await metricOf(master, expiryOfCertificate)) ?? 0) * 1000 > Date.now() + HOUR_MS / 2)
      assert.equal(master.logged(/does not accept the credentials/).length, 1)
      await assertWrites(server, master)
    })
  }

  test('a master stays listed although its exec plugin needs 20 s for each token after the first', async (t) => {
    const { etcd, server, directory, rewrite, start } = await setUp(t)
    const script = join(directory, 'plugin.sh')
    writeFileSync(
      script,
      `echo run >>${directory}/log
     [ $(wc -l <${directory}/log) -eq 1 ] || sleep 20
     ends=$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)
     printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"${server.token}","expirationTimestamp":"%s"}}' $ends`,
    )
    const apiVersion = 'client.authentication.k8s.io/v1'
    rewrite({ exec: { apiVersion, command: 'sh', args: [script], interactiveMode: 'Never' } })
    const { master, watched, from } = await start([`--etcd-servers=${etcd.url}`, ...shortLease])
    const expiry = 'apiserver_bootstrap_credentials_expiration_timestamp_seconds{kind="token"}'
    const first = (await metricOf(master, expiry)) ?? 0
    const renewed = await untilPasses(
      'the token to be renewed',
      async () => {
        const seconds = (await metricOf(master, expiry)) ?? 0
        assert.ok(seconds > first)
        return Date.now()
      },
      { withinMs: 75_000 },
    )
    assert.ok(renewed < first * 1000, 'the token is renewed before its expiry')
    await sleep(2_000)
    assertListedThroughout(watched, from)
    assert.equal(master.logged(/credential/).length, 0)
    await assertWrites(server, master)
  })

  // These tests wait most of the time.
  describe('a sidecar restarts without credentials', { concurrency: true }, () => {
    for (const [what, user] of [
      ['its exec plugin fails', { exec: { command: 'sh', args: ['plugin.sh'] } }],
      ['its exec plugin needs 20 s', { exec: { command: 'sh', args: ['slow-plugin.sh'] } }],
      ['its token file is missing', { tokenFile: 'token' }],
    ] as const) {
      test(`${what}: the address of its server stays listed`, async (t) => {
        const { owner, etcd, server, directory, kubeconfig, rewrite, start } = await setUp(t)
        const token = join(directory, 'token')
        const apiVersion = 'client.authentication.k8s.io/v1'
        const grant = `printf '{"apiVersion":"${apiVersion}","kind":"ExecCredential","status":{"token":"${server.token}"}}'`
        writeFileSync(join(directory, 'plugin.sh'), `[ -e ${token} ] || exit 1\n${grant}`)
        writeFileSync(join(directory, 'slow-plugin.sh'), `[ -e ${token} ] || sleep 20\n${grant}`)
        const inDirectory = (file: string): string => join(directory, file)
        rewrite(
          'exec' in user
            ? { exec: { ...user.exec, apiVersion, args: user.exec.args.map(inDirectory), interactiveMode: 'Never' } }
            : { tokenFile: inDirectory(user.tokenFile) },
        )
        writeFileSync(token, server.token)
        const flags = [`--etcd-servers=${etcd.url}`, '--lease-ttl=20s', '--reconcile-interval=2s']
        const { master, watched, from } = await start(flags)
        await master.kill()
        renameSync(token, `${token}.away`)
        const again = await startMaster(owner, server, { address: troubled, kubeconfig, flags })
        await sleep(25_000)
        again.assertRunning()
        renameSync(`${token}.away`, token)
        await again.waitForLog(/own API server is ready/, boundMs)
        assertListedThroughout(watched, from)
        assert.equal(again.logged(/no credentials are available yet/).length, what.endsWith('20 s') ? 0 : 1)
      })
    }
  })

  test('a server that answers readiness probes with 401, 403, 404 or 429 stays listed, with one log line and one Event', async (t) => {
    const { owner, etcd, server, rewrite, start } = await setUp(t)
    rewrite({ token: server.token })
    const readyz = await startFakeReadyz(owner)
    const flags = [`--etcd-servers=${etcd.url}`, ...shortLease]
    const { master, watched, from } = await start(flags, `--readyz-url=${readyz.url}`)
    for (const status of [401, 403, 404, 429]) {
      readyz.refuse(status)
      await sleep(5_000)
    }
    assertListedThroughout(watched, from)
    assert.match(
      JSON.stringify(master.logged(/readiness of the API server is unknown/)),
      /^[^}]+HTTP status 401[^}]+}]$/,
    )
    const { items } = await server.api.get<{ readonly items: readonly KubeEvent[] }>(
      '/apis/events.k8s.io/v1/namespaces/default/events',
    )
    const notes = items.filter(({ reason }) => reason === 'ReadinessRefused').map(({ note }) => note ?? '')
    assert.equal(notes.length, 1)
    assert.match(notes[0] ?? '', /^the readiness of the API server of 192\.0\.2\.2 is unknown: .* HTTP status 401/)
    readyz.setReady(true)
    await master.waitForLog(/is known again/, boundMs)
    // The answers of the server count again.
    readyz.setReady(false)
    await watched.whenRight({ addresses: [steady], port: server.port }, boundMs)
  })
})
