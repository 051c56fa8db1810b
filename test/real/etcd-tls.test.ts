import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import type { CredentialFiles } from '../../src/etcd/connect-credentials.ts'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { bytes, openClient, openWatch, patient, refusedWith, startWatch, untilDone } from '../etcd/etcd-client.ts'
import { auditIn } from '../peers/audit-lines.ts'
import { CertificateAuthority, type CertificateRequest, type KeyPair } from '../peers/certificates.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import { spawnChild } from '../support/spawn-child.ts'

const options = { signal: patient }
const hourMs = 3_600_000

describe('a real etcd that requires client certificates', () => {
  test('a client with a certificate of the authority is served, by address and by name', async (t) => {
    const { server, files } = await startWithTls(t)
    for (const url of [server.url, server.url.replace('127.0.0.1', 'localhost')]) {
      const etcd = openClient(t, [url], files.all)
      const watch = await openWatch(t, etcd, '/a/')
      const revision = await etcd.create('/a/1', bytes('one'), options)
      await watch.next('created 1')
      assert.equal(await etcd.delete('/a/1', revision ?? 0n, patient), true)
    }
  })

  test('each kind of bad certificate gives a distinct line, which names the file if it has one', async (t) => {
    const { server, files, authority } = await startWithTls(t)
    const refused = (certificates: CredentialFiles, ...words: RegExp[]): Promise<string> =>
      refusedWith('BadCertificate', openClient(t, [server.url], certificates).get('/a', patient), ...words)
    const stranger = new CertificateAuthority('another authority')

    files.write('other-ca.crt', stranger.certificate)
    await refused(
      { ...files.all, cafile: files.path('other-ca.crt') },
      /signed by an unknown authority; the certificate authorities in \S+other-ca\.crt are trusted$/,
    )
    files.write('namesake-ca.crt', new CertificateAuthority().certificate)
    await refused({ ...files.all, cafile: files.path('namesake-ca.crt') }, /signed by (?:an unknown|another) authority/)
    await refused(
      { certfile: files.all.certfile, keyfile: files.all.keyfile },
      /the server certificate .+; the certificate authorities that Node trusts are in use$/,
    )
    await refused({ cafile: files.all.cafile }, /refuses the client/, /there is no client certificate/)

    files.rotate(stranger.issue({ commonName: 'stranger' }))
    await refused(files.all, /refuses the client/, /the client certificate is in \S+client\.crt/)
    files.rotate(authority.issue({ commonName: 'client', validForMs: -hourMs }))
    await refused(files.all, /refuses the client/, /client\.crt expired on \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/)
  })

  test('unusable files give NoCredentials with the reason', async (t) => {
    const { server, files, authority } = await startWithTls(t)
    const refused = (certificates: CredentialFiles, word: RegExp): Promise<string> =>
      refusedWith('NoCredentials', openClient(t, [server.url], certificates).get('/a', patient), word)
    await refused({ ...files.all, cafile: files.path('none.crt') }, /none\.crt does not exist$/)
    await refused({ ...files.all, certfile: files.directory }, /cannot be read \(EISDIR\)$/)
    files.write('text.crt', 'no certificate')
    await refused({ ...files.all, cafile: files.path('text.crt') }, /text\.crt cannot be used: /)
    files.write('client.key', authority.issue({ commonName: 'client' }).key)
    await refused(files.all, /client\.crt with the key \S+client\.key cannot be used: .*key values mismatch/)
  })

  test('a client with an expired certificate uses its open connection, gets no new one, and is served after a renewal', async (t) => {
    const { server, files, authority, owner } = await startWithTls(t)
    const proxy = await TcpProxy.start(owner, { target: server.port })
    const lifeMs = 6_000
    files.rotate(authority.issue({ commonName: 'client', validForMs: lifeMs }))
    const expiresAtMs = performance.now() + lifeMs
    const etcd = openClient(t, [`https://127.0.0.1:${proxy.port}`], files.all)
    const watch = await openWatch(t, etcd, '/a/')
    await untilDone('the expiry', async () => assert.ok(performance.now() > expiresAtMs + 1_500))
    assert.ok(await etcd.create('/a/1', bytes('one'), options))
    await watch.next('created 1')

    proxy.cut()
    await watch.next('BadCertificate')
    await refusedWith('BadCertificate', etcd.get('/a/1', patient), /client\.crt expired on \d{4}-/)
    files.rotate(authority.issue({ commonName: 'client' }))
    await watch.next('read')
    assert.ok(await etcd.get('/a/1', patient))
    assert.deepEqual(watch.lines, [
      'established',
      'read',
      'created 1',
      'Unreachable',
      'BadCertificate',
      'established',
      'read',
    ])
  })

  test('a client whose files are damaged later is served over new connections too', async (t) => {
    const { server, files, owner } = await startWithTls(t)
    const proxy = await TcpProxy.start(owner, { target: server.port })
    const etcd = openClient(t, [`https://127.0.0.1:${proxy.port}`], files.all)
    const revision = await etcd.create('/a/1', bytes('one'), options)
    for (const file of ['client.crt', 'client.key', 'ca.crt']) {
      files.write(file, '-----BEGIN')
      proxy.cut()
      assert.ok(await etcd.get('/a/1', patient))
    }
    assert.equal(await etcd.delete('/a/1', revision ?? 0n, patient), true)
  })

  test('a corrected authority file takes effect without a restart and is logged once', async (t) => {
    const { server, files, authority } = await startWithTls(t)
    const wrong = new CertificateAuthority('not yet')
    files.write('ca.crt', wrong.certificate)
    const logged: string[] = []
    const logger = {
      debug() {},
      info: (_: object, line: string) => void logged.push(line),
      warn() {},
      error() {},
      child: () => logger,
    }
    const etcd = openClient(t, [server.url], { ...files.all, logger })
    const watch = startWatch(t, etcd, '/a/')
    await watch.next('BadCertificate')
    files.write('ca.crt', authority.certificate)
    await watch.next('read')
    assert.deepEqual(
      logged.filter((line) => line.includes('certificates')),
      ['the certificates for etcd have changed: new connections use the new ones'],
    )
  })

  test('a metric shows when the certificates in use expire, and follows a file that is replaced', async (t) => {
    const { server, files, authority } = await startWithTls(t)
    const metrics = prometheusMetrics()
    const ends = async (kind: string): Promise<number> => {
      const [, seconds] = new RegExp(`\\{kind="${kind}"\\} (\\d+)`).exec(await metrics.expose()) ?? []
      return (Number(seconds) * 1000 - Date.now()) / hourMs
    }
    let aheadMs = 0
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
    const etcd = connectEtcd({ endpoints: [parseEndpoint(server.url)], clock, metrics, ...files.all })
    t.after(() => etcd.close())
    await etcd.get('/a', patient)
    for (const kind of ['etcd-certfile', 'etcd-cafile']) {
      const hours = await ends(kind)
      assert.ok(hours > 239 && hours <= 240, `${kind}: ${hours}`)
    }
    files.rotate(authority.issue({ commonName: 'client', validForMs: 1_000 * hourMs }))
    await etcd.get('/a', patient)
    assert.ok((await ends('etcd-certfile')) <= 240)
    aheadMs = 60_000
    await etcd.get('/a', patient)
    await untilDone('the metric', async () => assert.ok((await ends('etcd-certfile')) > 999))
  })

  test('the error of an etcd user without permission names the missing permission', async (t) => {
    const { server, files, authority } = await startWithTls(t)
    const key = (text: string): string => Buffer.from(text).toString('base64')
    for (const name of ['root', 'client']) await server.call('/v3/auth/user/add', { name, password: 'secret' })
    await server.call('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.call('/v3/auth/role/add', { name: 'a' })
    const perm = { permType: 'READWRITE', key: key('/a/'), range_end: key('/a0') }
    await server.call('/v3/auth/role/grant', { name: 'a', perm })
    await server.call('/v3/auth/user/grant', { user: 'client', role: 'a' })
    await server.call('/v3/auth/enable')

    // The user is the certificate's common name.
    const etcd = openClient(t, [server.url], files.all)
    const watch = await openWatch(t, etcd, '/a/')
    assert.ok(await etcd.create('/a/1', bytes('one'), options))
    await watch.next('created 1')
    const denied = (call: Promise<unknown>, right: string): Promise<string> =>
      refusedWith('PermissionDenied', call, new RegExp(`permission denied; this needs the permission to ${right}$`))
    await denied(etcd.get('/b/1', patient), 'read /b/1')
    await denied(etcd.list('/b/', options), 'read all of /b/')
    await denied(etcd.create('/b/1', bytes('one'), options), 'read and write /b/1')
    await denied(etcd.update('/b/1', bytes('one'), 1n, options), 'read and write /b/1')
    await denied(etcd.delete('/b/1', 1n, patient), 'read and write /b/1')
    const refused = startWatch(t, etcd, '/b/')
    await refused.next('PermissionDenied')
    assert.match(
      String(refused.errors[0]?.message),
      /permission denied; this needs the permission to read all of \/b\/$/,
    )

    files.rotate(authority.issue({ commonName: 'nobody' }))
    const nobody = openClient(t, [server.url], files.all)
    await refusedWith('PermissionDenied', nobody.get('/a/1', patient), /permission denied/)
  })

  test('the audit trail of an eviction names the common name of the client certificate', async (t) => {
    const { owner, server, files } = await startWithTls(t)
    const etcd = openClient(t, [server.url], files.all)
    const key = '/registry/masterleases/192.0.2.'
    await etcd.create(`${key}1`, encodeMasterLease('192.0.2.1'), {
      lease: (await etcd.grantLease(60, patient)).id,
      ...options,
    })
    await etcd.create(`${key}9`, encodeMasterLease('192.0.2.9'), options)
    const HOME = temporaryDirectory(owner, 'home')
    const { cafile, certfile, keyfile } = files.all
    const flags = [`--etcd-servers=${server.url}`, `--etcd-cafile=${cafile}`, `--etcd-certfile=${certfile}`]
    const evicting = await spawnChild(
      owner,
      process.execPath,
      [programPath(), 'masters', 'evict', '192.0.2.9', '--yes', ...flags, `--etcd-keyfile=${keyfile}`],
      { env: { HOME, KUBECONFIG: undefined, KUBERNETES_SERVICE_HOST: undefined } },
    )
    assert.equal((await evicting.exited).code, 0, evicting.stderr())
    assert.deepEqual(
      auditIn(evicting.stderr()).map(({ verb, outcome, user }) => [verb, outcome, user.etcdUser, user.kubeconfigUser]),
      [['evict', 'written', 'client', undefined]],
    )
  })

  test('a plain-text request to a server with TLS gives Unreachable', async (t) => {
    const { server } = await startWithTls(t)
    const plain = openClient(t, [server.url.replace('https:', 'http:')])
    await refusedWith('Unreachable', plain.get('/a', patient))
  })
})

/** Certificate files of one client, in a directory of their own. */
class ClientFiles {
  readonly directory: string
  readonly all: CredentialFiles

  constructor(directory: string) {
    this.directory = directory
    this.all = { cafile: this.path('ca.crt'), certfile: this.path('client.crt'), keyfile: this.path('client.key') }
  }

  path(name: string): string {
    return join(this.directory, name)
  }

  /** Writes in one step, like tools that rotate certificates. */
  write(name: string, content: string): void {
    writeFileSync(this.path('next'), content, { mode: 0o600 })
    renameSync(this.path('next'), this.path(name))
  }

  rotate({ certificate, key }: KeyPair): void {
    this.write('client.key', key)
    this.write('client.crt', certificate)
  }
}

async function startWithTls(t: TestContext): Promise<{
  readonly owner: Owner
  readonly server: Etcd
  readonly authority: CertificateAuthority
  readonly files: ClientFiles
}> {
  const owner = openOwner(t)
  const authority = new CertificateAuthority()
  const server = await startEtcd(owner, { authority })
  const files = new ClientFiles(temporaryDirectory(owner, 'client'))
  files.write('ca.crt', authority.certificate)
  const request: CertificateRequest = { commonName: 'client' }
  files.rotate(authority.issue(request))
  return { owner, server, authority, files }
}
