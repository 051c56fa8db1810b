import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { CertificateAuthority } from '../peers/certificates.ts'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { kitPath, type Manifest, readKit, renderKit } from '../peers/kits.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { type Machine, type MachineOptions, startMachine } from '../peers/machine.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'

const address = '192.0.2.1'
const administrator = { commonName: 'kubernetes-admin', organizations: ['system:masters'] }

interface KindCluster {
  readonly kubeadmConfigPatchesJSON6902: readonly { readonly version: string; readonly patch: string }[]
  readonly nodes: readonly {
    readonly extraMounts: readonly { readonly hostPath: string; readonly containerPath: string }[]
  }[]
}

interface K3dCluster {
  readonly options: { readonly k3s: { readonly extraArgs: readonly { readonly arg: string }[] } }
  readonly files: readonly { readonly destination: string; readonly source: string }[]
}

/** The paths on the node that the Pod mounts. */
async function nodePaths(kit: string): Promise<readonly string[]> {
  const [pod] = (await renderKit(kit)) as readonly (Manifest & {
    readonly spec: { readonly volumes: readonly { readonly hostPath: { readonly path: string } }[] }
  })[]
  return pod?.spec.volumes.map(({ hostPath }) => hostPath.path) ?? []
}

/** The command with which the workflow of a kit checks its cluster. */
function verification(kit: string): readonly string[] {
  const { jobs } = readKit<{ jobs: Record<string, { steps: readonly { run?: string }[] }> }>(`${kit}/workflow.yaml`)
  const last = jobs[kit]?.steps.at(-1)?.run ?? ''
  assert.match(last, /^node dist\/cli\.js verify /)
  return last.split(' ').slice(2)
}

/**
 * Asserts with the workflow's own command that the list is empty until the sidecar runs, and that everything holds
 * then.
 */
async function passesItsOwnTest(owner: Owner, kit: string, options: Omit<MachineOptions, 'kit' | 'address' | 'host'>) {
  const { kubeconfig: onTheNode = '' } = options.configuration as { readonly kubeconfig?: string }
  assert.ok((await nodePaths(kit)).includes(onTheNode), onTheNode)
  const machine: Machine = await startMachine(owner, { ...options, kit, address, host: 'host-1' })
  const accepted = await kubectlFor(owner, machine.server.kubeconfig)(
    'apply',
    '--server-side',
    '--dry-run=server',
    '-k',
    kitPath(kit),
  )
  assert.equal(accepted.code, 0, accepted.stderr)
  const kubeconfig = machine.kubeconfig(administrator)
  const verify = async (...args: readonly string[]) => {
    const words = verification(kit).map((word) => (word === '~/.kube/config' ? kubeconfig : word))
    const program = await Program.start(owner, [...words, ...args])
    const { code } = await program.process.exited
    return { code, output: program.process.tail(200) }
  }
  const without = await verify('--wait=2s')
  assert.equal(without.code, 1, without.output)
  assert.match(without.output, /^::error .*kubernetes-endpoints/m)

  const sidecar = await machine.start()
  const { code, output } = await verify()
  assert.equal(code, 0, output)
  assert.doesNotMatch(output, /^::error/m)
  assert.deepEqual(sidecar.logged(/"level":"(?:warn|error)"/), [])
  assert.deepEqual(await sidecar.stop(), { code: 0, signal: null })
}

test('the kind kit passes its own verify command on a kube-apiserver with the flags of its cluster file, on etcd', async (t) => {
  const owner = openOwner(t)
  const { kubeadmConfigPatchesJSON6902: patches, nodes } = readKit<KindCluster>('kind/cluster.yaml')
  const flags = patches.map(({ version, patch }) => {
    const [{ path, value }] = parse(patch) as [{ path: string; value: string | { name: string; value: string } }]
    const [name, text] = typeof value === 'string' ? [path.split('/').at(-1), value] : [value.name, value.value]
    return `${version} --${name}=${text}`
  })
  assert.deepEqual(flags, ['v1beta3 --endpoint-reconciler-type=none', 'v1beta4 --endpoint-reconciler-type=none'])
  const mounted = nodes[0]?.extraMounts ?? []
  assert.deepEqual(
    mounted.map(({ containerPath }) => containerPath),
    ['/etc/kubernetes/manifests/apiserver-bootstrap.yaml', '/etc/kubernetes/apiserver-bootstrap/sidecar.yaml'],
  )
  // What kubeadm itself makes, and what is mounted.
  const made = ['/etc/kubernetes/admin.conf', '/etc/kubernetes/pki']
  assert.deepEqual((await nodePaths('kind')).toSorted(), [...made, dirname(mounted[1]?.containerPath ?? '')].toSorted())

  const authority = new CertificateAuthority()
  await passesItsOwnTest(owner, 'kind', {
    configuration: readKit((mounted[1]?.hostPath ?? '').replace('config/', '')),
    server: { kind: 'stock', flags: ['--service-cluster-ip-range=10.96.0.0/16', flags[0]?.split(' ')[1] ?? ''] },
    store: await startEtcd(owner, { authority }),
    authority,
    user: administrator,
  })
})

test('the k3d kit passes its own verify command on a kube-apiserver with the flags of its cluster file, on kine', async (t) => {
  const owner = openOwner(t)
  const { options, files } = readKit<K3dCluster>('k3d/cluster.yaml')
  const flags = options.k3s.extraArgs.map(({ arg }) => arg.replace('--kube-apiserver-arg=', '--'))
  assert.deepEqual(flags, ['--endpoint-reconciler-type=none'])
  assert.deepEqual(await nodePaths('k3d'), [dirname(files[0]?.destination ?? ''), '/etc/rancher/k3s/k3s.yaml'])
  await passesItsOwnTest(owner, 'k3d', {
    configuration: parse(files[0]?.source ?? ''),
    // As in k3s, which refuses anonymous requests.
    server: { kind: 'stock', flags: ['--service-cluster-ip-range=10.43.0.0/16', '--anonymous-auth=false', ...flags] },
    store: await startKine(owner),
    user: administrator,
  })
})
