import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { runToEnd } from '../peers/program.ts'

test('on a healthy kube-apiserver with kube-controller-manager everything holds, with no flag but --kubeconfig', async (t: TestContext) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'stock' })
  await startControllerManager(owner, server)
  await whenRight(server.api, { addresses: ['192.0.2.250'], port: server.port }, 30_000)
  const { code, output } = await runToEnd(owner, ['verify', `--kubeconfig=${server.kubeconfig}`])
  assert.equal(code, 0, output)
  assert.match(output, / 0 failed, /)
  const stricter = [
    `--etcd-servers=${etcd.url}`,
    '--expect-addresses=192.0.2.250',
    '--service-cluster-ip-range=10.96.0.0/12',
  ]
  const again = await runToEnd(owner, ['verify', `--kubeconfig=${server.kubeconfig}`, ...stricter])
  assert.equal(again.code, 0, again.output)
  assert.match(again.output, /master-leases +held +192\.0\.2\.250/)
})
