import assert from 'node:assert/strict'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type LogLine, type Program, startMaster } from '../peers/program.ts'
import { whenReady } from '../peers/program-health.ts'

// Messages for a user who made a mistake, or whose server is gone: they name the party at fault and the remedy.

const address = '192.0.2.1'

suite('messages', () => {
  const owner = openOwner({ after })
  const cluster = { server: undefined as unknown as Apiserver, directory: '' }
  before(async () => {
    const { server } = await startCluster(owner, { kind: 'bare', authorization: 'RBAC' })
    Object.assign(cluster, { server, directory: temporaryDirectory(owner, 'messages') })
  })

  /** A master with the server's kubeconfig after these changes. */
  async function start(
    own: Owner,
    change: { readonly user?: object; readonly cluster?: object },
    flags: readonly string[] = [],
  ): Promise<Program> {
    const { server, directory } = cluster
    const config = JSON.parse(readFileSync(server.kubeconfig, 'utf8'))
    if (change.user !== undefined) config.users[0].user = change.user
    Object.assign(config.clusters[0].cluster, change.cluster)
    const kubeconfig = join(directory, `kubeconfig-${performance.now()}`)
    writeFileSync(kubeconfig, JSON.stringify(config), { mode: 0o600 })
    return startMaster(own, server, { address, kubeconfig, flags })
  }
  const warnings = ({ log }: Program): readonly LogLine[] =>
    log.filter(({ level }) => level === 'warn' || level === 'error')

  test('a refused token and an expired client certificate each give one line with the remedy', async (t) => {
    const own = openOwner(t)
    const { server, directory } = cluster
    const file = (name: string, text: string): string => {
      writeFileSync(join(directory, name), text, { mode: 0o600 })
      return join(directory, name)
    }
    const old = server.authority.issue({
      commonName: 'admin',
      organizations: ['system:masters'],
      validForMs: -3_600_000,
    })
    const certificate = file('old.crt', old.certificate)
    const masters = await Promise.all([
      start(own, { user: { token: 'wrong' } }),
      start(own, { user: { 'client-certificate': certificate, 'client-key': file('old.key', old.key) } }),
    ])
    await Promise.all(masters.map((master) => master.waitForLog(/does not accept the credentials/, 30_000)))
    await sleep(8_000)
    const [token, expired] = masters.map((master) => master.logged(/does not accept the credentials/))
    assert.equal(token?.length, 1)
    assert.match(token?.[0]?.message ?? '', /\(401\): write a newer token into the kubeconfig$/)
    assert.equal(expired?.length, 1)
    assert.ok(expired?.[0]?.message.endsWith(`write a newer client certificate to ${certificate}`))
    const endedMs = Date.now() - Date.parse(String(expired?.[0]?.ends))
    assert.ok(endedMs > 3_500_000 && endedMs < 3_800_000, `${endedMs} ms ago`)
    // The other warnings state that the certificate has expired, and that the readiness is unknown.
    assert.deepEqual(
      masters.map((master) => warnings(master).length),
      [2, 3],
    )
  })

  test('an unknown host and http to a server with TLS each give one warning with the reason', async (t) => {
    const own = openOwner(t)
    const { server } = cluster
    const unknownHost = `https://no-such-host.invalid:${server.port}`
    const masters = await Promise.all([
      start(own, { cluster: { server: unknownHost } }, ['--readiness-gate=startup', `--readyz-url=${unknownHost}`]),
      start(own, {
        user: {},
        cluster: { server: `http://127.0.0.1:${server.port}`, 'certificate-authority-data': undefined },
      }),
    ])
    await Promise.all(masters.map((master) => master.waitForLog(/cannot reach the API server/, 30_000)))
    await sleep(8_000)
    const [unknown, plain] = masters.map((master) => warnings(master))
    assert.deepEqual(
      unknown?.map(({ message }) => message),
      ['cannot reach the API server'],
    )
    assert.match(String(unknown?.[0]?.reason), /: no such host$/)
    assert.deepEqual(
      plain?.map(({ message }) => message),
      ['cannot reach the API server'],
    )
    assert.match(String(plain?.[0]?.reason), /accepts only https \("Client sent an HTTP request .*"\): use https:\/\//)
  })

  test('a hanging exec plugin is named in the log', async (t) => {
    const own = openOwner(t)
    const script = join(cluster.directory, 'plugin.sh')
    writeFileSync(script, '#!/bin/sh\nexec sleep 600\n')
    chmodSync(script, 0o755)
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: script, interactiveMode: 'Never' }
    const master = await start(own, { user: { exec } })
    const { message } = await master.waitForLog(/exec plugin/, 30_000)
    assert.equal(
      message,
      `exec plugin "${script}" of user "test" has not answered yet; requests to the API server wait for it`,
    )
  })

  test('missing rights are logged with the folder of the roles, once as a hint and in the last line', async (t) => {
    const own = openOwner(t)
    const user = { token: cluster.server.unprivilegedToken }
    const master = await start(own, { user }, ['--repair-startup-timeout=5s'])
    const { code } = await master.process.exited
    assert.equal(code, 1)
    assert.equal(master.logged(/"hint":"the rights that are needed are in config\/kustomize: rbac, /).length, 1)
    assert.match(
      warnings(master).at(-1)?.message ?? '',
      /still refused after 5s: .*; the rights .* config\/kustomize: rbac, .*$/,
    )
  })

  test('a 403 of a restarted server that has not loaded its RBAC rules yet is not logged', async (t) => {
    const own = openOwner(t)
    const { server } = cluster
    const binding = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'nobody-is-administrator' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'nobody' }],
    }
    const path = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings'
    await server.api.create(path, binding)
    t.after(() => server.api.delete(`${path}/nobody-is-administrator`))
    const master = await start(own, { user: { token: server.unprivilegedToken } })
    await whenReady(master, 30_000)
    for (let restarts = 1; restarts <= 2; restarts++) {
      await server.kill()
      await server.start()
      await whenReady(master, 30_000)
      await sleep(4_000)
    }
    assert.deepEqual(master.logged(/[Ff]orbidden|refuses a request/), [])
  })

  test('a health address in use is reported with its flag', async (t) => {
    const taken = createServer()
    t.after(() => taken.close())
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { readonly port: number }).port))
    })
    const master = await start(openOwner(t), {}, [`--health-bind-address=127.0.0.1:${port}`])
    assert.deepEqual(await master.process.exited, { code: 1, signal: null })
    const failed = warnings(master).at(-1)
    assert.equal(failed?.flag, '--health-bind-address')
    assert.match(JSON.stringify(failed?.error), /the port is in use/)
  })

  for (const [description, gone] of [
    ['is dead', 'kill'],
    ['hangs', 'pause'],
  ] as const) {
    test(`SIGTERM while the server ${description} ends the program within 19 s, and the next start lists the master again`, async (t) => {
      const own = openOwner(t)
      const { server } = cluster
      const listed = () => whenRight(server.api, { addresses: [address], port: server.port }, 30_000)
      const master = await start(own, {})
      await whenReady(master, 30_000)
      if (gone === 'kill') await server.kill()
      else server.pause()
      t.after(() => (gone === 'kill' ? undefined : server.resume()))
      await sleep(2_000)
      const beganMs = performance.now()
      assert.deepEqual(await master.stop(), { code: 0, signal: null })
      const tookMs = performance.now() - beganMs
      assert.ok(tookMs < 19_000, `${tookMs} ms`)
      assert.equal(master.logged(/API server and lease store do not respond/).length, 1)
      if (gone === 'kill') await server.start()
      else server.resume()
      await start(own, {})
      await listed()
    })
  }
})
