import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CertificateAuthority } from '../peers/certificates.ts'
import { startEtcd } from '../peers/etcd.ts'
import { kitPath, readKit } from '../peers/kits.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { judgeVersions, listKeys } from '../peers/listing-judge.ts'
import { type Machine, startMachine } from '../peers/machine.ts'
import { openOwner } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'
import { followKeys } from '../peers/stored-versions.ts'

const shared = '192.0.2.100'
const administrator = { commonName: 'kubernetes-admin', organizations: ['system:masters'] }

test('three masters of the virtual-address kit list only that address, which stays listed when two of their servers die', async (t) => {
  const owner = openOwner(t)
  const authority = new CertificateAuthority()
  const store = await startEtcd(owner, { authority })
  const machines = await Promise.all(
    [1, 2, 3].map((number) =>
      startMachine(owner, {
        kit: 'kustomize/virtual-address',
        configuration: readKit('kustomize/static-pod/sidecar.yaml'),
        address: `192.0.2.${number}`,
        host: `host-${number}`,
        server: { kind: 'bare', flags: ['--endpoint-reconciler-type=none'] },
        // The port of the load balancer.
        securePort: 6443,
        store,
        authority,
        user: administrator,
      }),
    ),
  )
  const [first, second, third] = machines as [Machine, Machine, Machine]
  const sidecars = await Promise.all(machines.map((machine) => machine.start()))
  await whenRight(third.server.api, { addresses: [shared], port: 6443 }, 60_000)
  const observe = async (...args: readonly string[]): Promise<string> => {
    const flags = [`--kubeconfig=${third.kubeconfig(administrator)}`, ...third.store]
    const program = await Program.start(owner, [...args, ...flags])
    assert.deepEqual(await program.process.exited, { code: 0, signal: null }, program.process.tail(100))
    return program.process.tail(100)
  }
  const readme = readFileSync(kitPath('kustomize/virtual-address/README.md'), 'utf8')
  const verification = /`(verify [^`]+)`/.exec(readme)?.[1]?.split(' ') ?? []
  await observe(...verification, '--wait=60s')
  const rows = (await observe('masters')).split('\n').filter((line) => line.includes(shared))
  assert.equal(rows.length, 3, rows.join('\n'))
  for (const row of rows) assert.match(row, /shared by/)

  const followed = await followKeys(owner, [store], Object.values(listKeys()))
  await Promise.all([first.server.kill(), sidecars[0]?.kill()])
  await Promise.all([second.server.kill(), sidecars[1]?.stop()])
  // Longer than their leases.
  await sleep(18_000)
  await observe(...verification, '--expect-masters=1')
  await followed.caughtUp()
  assert.deepEqual(judgeVersions(followed.versions, 0, [shared]), { gaps: [], empty: [] })
})
