import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { startKine } from '../peers/kine.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { runToEnd, startMaster } from '../peers/program.ts'

test('on a healthy kube-apiserver with kube-controller-manager no check fails, with --kubeconfig alone or more flags', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'stock', authorization: 'RBAC' })
  await startControllerManager(owner, server)
  const { code, output } = await runToEnd(owner, ['verify', `--kubeconfig=${server.kubeconfig}`, '--wait=60s'])
  assert.equal(code, 0, output)
  assert.match(output, / 0 failed, 3 skipped/)
  const expectations = `${server.kubeconfig}-expectations`
  writeFileSync(
    expectations,
    `apiVersion: apiserver-bootstrap/v1alpha1
kind: VerifyExpectations
expectAddresses: [192.0.2.250]
serviceClusterIpRange: 10.96.0.0/12
`,
  )
  const stricter = [
    `--etcd-servers=${etcd.url}`,
    `--expect=${expectations}`,
    '--probe',
    `--probe-map=192.0.2.250=127.0.0.1:${server.port}`,
    '--watch-writers=2s',
  ]
  const again = await runToEnd(owner, ['verify', `--kubeconfig=${server.kubeconfig}`, ...stricter])
  assert.equal(again.code, 0, again.output)
  assert.match(again.output, /master-leases +held +192\.0\.2\.250/)
  assert.match(again.output, /expected-masters +held +192\.0\.2\.250/)
  assert.match(again.output, /server-ready +held +1 are ready/)
  assert.match(again.output, /single-writer +held +no writer overwrote 3 objects in 2s/)
  assert.match(again.output, /range-allocations +held +servicenodeports/)
  assert.match(again.output, / 0 failed, 0 skipped/)

  // The rights in config/kustomize/rbac-verify are enough.
  const manifests = fileURLToPath(new URL('../../config/kustomize/rbac-verify', import.meta.url))
  const applied = await kubectlFor(owner, server.kubeconfig)('apply', '-k', manifests)
  assert.equal(applied.code, 0, applied.stderr)
  const content = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: object }[] }
  for (const { user } of content.users) Object.assign(user, { as: 'apiserver-bootstrap-verify' })
  const restricted = `${server.kubeconfig}-restricted`
  writeFileSync(restricted, JSON.stringify(content), { mode: 0o600 })
  const own = await runToEnd(owner, ['verify', `--kubeconfig=${restricted}`, ...stricter])
  assert.equal(own.code, 0, own.output)
  assert.match(own.output, / 0 failed, 0 skipped/)
  // Without any rights, every check is skipped.
  for (const { user } of content.users) Object.assign(user, { as: 'nobody-at-all' })
  writeFileSync(restricted, JSON.stringify(content), { mode: 0o600 })
  const nobody = await runToEnd(owner, ['verify', `--kubeconfig=${restricted}`])
  assert.equal(nobody.code, 3, nobody.output)
  assert.match(nobody.output, /^0 held, 0 failed/m)
  assert.match(nobody.output, /every check was skipped: nothing was verified/)
  assert.doesNotMatch(own.output, /forbidden/)
})

test('on kine no check fails, and on 1.32 the check of ServiceCIDRs is skipped with the reason', async (t) => {
  const owner = openOwner(t)
  const kine = await startKine(owner)
  for (const [kind, prefix] of [
    ['bare', '/registry'],
    ['bare-1.32', '/old'],
  ] as const) {
    const server = await startApiserver(owner, { kind, etcd: kine, etcdPrefix: prefix })
    const store = [`--etcd-servers=${kine.url}`, `--etcd-prefix=${prefix}`]
    const master = await startMaster(owner, server, { address: '192.0.2.1', flags: store })
    await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 60_000)
    const flags = [`--kubeconfig=${server.kubeconfig}`, ...store, '--wait=60s']
    const { code, output } = await runToEnd(owner, ['verify', ...flags])
    assert.equal(code, 0, output)
    assert.match(
      output,
      kind === 'bare' ? / 0 failed, 0 skipped/ : /service-cidr +skipped +the server does not have it/,
    )
    await master.stop()
    await server.kill()
  }
})
