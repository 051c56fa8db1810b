import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startApiserver } from '../peers/apiserver.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { startEtcd } from '../peers/etcd.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { packClone, pathWithNode, run } from '../support/package.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

/** The command line of the README that begins with `start`, without line breaks. */
function readmeLine(start: string): string {
  const text = readFileSync('README.md', 'utf8').replaceAll(/\\\n */g, '')
  return text.split('\n').find((line) => line.startsWith(start)) ?? assert.fail(`the README has no line ${start}`)
}

test('the commands of the README install the packed package in an empty folder and run it', async (t) => {
  const directory = await tempDir(t)
  const home = join(directory, 'home')
  const folder = join(directory, 'empty')
  mkdirSync(folder)
  await packClone(t, folder)
  const PATH = await pathWithNode(t, directory)
  const env = { PATH, npm_config_prefix: directory, npm_config_prefer_offline: 'true' }
  await run(t, 'sh', ['-c', readmeLine('npm install')], { cwd: folder, env })
  const start = (line: string) =>
    spawnChild(t, 'sh', ['-c', `exec ${line}`], { cwd: folder, env: { ...env, HOME: home } })
  /** At a free port: other tests run beside this one. */
  const health = '--health-bind-address 127.0.0.1:0'

  await t.test('run --embedded lists its address and stops with exit code 0', async () => {
    const embedded = await start(`${readmeLine('apiserver-bootstrap run --embedded')} ${health}`)
    await embedded.output(/192\.0\.2\.1/)
    assert.deepEqual(await embedded.stop(), { code: 0, signal: null }, embedded.stderr())
  })

  await t.test(
    'a sidecar bootstraps a real server whose etcd requires client certificates, and verify passes',
    async () => {
      const owner = openOwner(t)
      const authority = new CertificateAuthority()
      const etcd = await startEtcd(owner, { authority })
      const { certificate, key } = authority.issue({ commonName: 'apiserver-etcd-client' })
      const files = {
        'etcd/ca.crt': authority.certificate,
        'apiserver-etcd-client.crt': certificate,
        'apiserver-etcd-client.key': key,
      }
      const kubernetes = join(directory, 'kubernetes')
      mkdirSync(join(kubernetes, 'pki/etcd'), { recursive: true })
      for (const [name, text] of Object.entries(files))
        writeFileSync(join(kubernetes, 'pki', name), text, { mode: 0o600 })
      const pki = join(kubernetes, 'pki')
      const server = await startApiserver(owner, {
        kind: 'bare',
        etcd,
        flags: [
          `--etcd-cafile=${pki}/etcd/ca.crt`,
          `--etcd-certfile=${pki}/apiserver-etcd-client.crt`,
          `--etcd-keyfile=${pki}/apiserver-etcd-client.key`,
        ],
      })
      mkdirSync(join(home, '.kube'), { recursive: true })
      mkdirSync(join(kubernetes, 'apiserver-bootstrap'))
      for (const kubeconfig of [join(kubernetes, 'apiserver-bootstrap/kubeconfig'), join(home, '.kube/config')]) {
        copyFileSync(server.kubeconfig, kubeconfig)
      }
      const line = readmeLine('apiserver-bootstrap run --kubeconfig')
        .replaceAll('/etc/kubernetes', kubernetes)
        .replace('--secure-port 6443', `--secure-port ${server.port}`)
        .replace('https://127.0.0.1:2379', etcd.url)
      const sidecar = await start(`${line} ${health}`)
      await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 60_000)
      const verify = await start(readmeLine('apiserver-bootstrap verify'))
      assert.equal((await verify.exited).code, 0, verify.stdout() + verify.stderr())
      assert.deepEqual(await sidecar.stop(20_000), { code: 0, signal: null }, sidecar.stderr())
    },
  )

  await t.test('a drill of random runs passes and writes a report', async () => {
    const drill = await start(readmeLine('apiserver-bootstrap drill').replace('--runs 100', '--runs 3'))
    const { code } = await drill.exited
    assert.equal(code, 0, drill.stdout() + drill.stderr())
    assert.match(readFileSync(join(folder, 'drill-report/report.html'), 'utf8'), /^<!doctype html>/i)
  })
})
