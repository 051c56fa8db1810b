import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { parse, stringify } from 'yaml'
import { binary } from '../peers/binaries.ts'
import { argumentsOf, configurationOf, type KitContainer, kitPath, programOf, renderKit } from '../peers/kits.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'
import { RunningProcess } from '../peers/process.ts'
import { Program, runToEnd } from '../peers/program.ts'

const address = '192.0.2.1'
const readme = readFileSync(kitPath('kustomize/static-pod/README.md'), 'utf8')

/** The files that kubeadm makes on a master, in a folder in place of /etc/kubernetes. */
interface Rendered {
  readonly root: string
  /** Runs kubeadm there; resolves with what it printed. */
  kubeadm(...args: readonly string[]): Promise<string>
  /** The command of a static Pod that kubeadm rendered. */
  command(pod: string): readonly string[]
}

/**
 * Certificates and static Pods by kubeadm's own phases. `flags` are those that the README of the kit adds to
 * kube-apiserver.
 */
async function renderMaster(owner: Owner, flags: readonly string[]): Promise<Rendered> {
  const root = temporaryDirectory(owner, 'kubeadm')
  const manifests = join(root, 'manifests')
  mkdirSync(manifests)
  const configuration = [
    {
      apiVersion: 'kubeadm.k8s.io/v1beta4',
      kind: 'ClusterConfiguration',
      kubernetesVersion: 'v1.36.3',
      certificatesDir: join(root, 'pki'),
      apiServer: {
        // Nothing here can be reached at the address of a master.
        certSANs: ['127.0.0.1'],
        extraArgs: flags.map((flag) => {
          const [name, value] = flag.replace('--', '').split('=')
          return { name, value }
        }),
      },
      networking: { serviceSubnet: '10.96.0.0/12' },
    },
    {
      apiVersion: 'kubeadm.k8s.io/v1beta4',
      kind: 'InitConfiguration',
      localAPIEndpoint: { advertiseAddress: address },
      nodeRegistration: { name: 'master-1' },
    },
  ]
  const file = join(root, 'kubeadm.yaml')
  writeFileSync(file, configuration.map((document) => stringify(document)).join('---\n'))
  const kubeadm = async (...args: readonly string[]): Promise<string> => {
    const env = { ...process.env, KUBEADM_INIT_DRYRUN_DIR: manifests }
    const { stdout } = await promisify(execFile)(binary('kubeadm'), [...args, `--config=${file}`], { env })
    return stdout
  }
  await kubeadm('init', 'phase', 'certs', 'all')
  await kubeadm('init', 'phase', 'etcd', 'local', '--dry-run')
  await kubeadm('init', 'phase', 'control-plane', 'apiserver', '--dry-run')
  return {
    root,
    kubeadm,
    command(pod) {
      const { spec } = parse(readFileSync(join(manifests, `${pod}.yaml`), 'utf8')) as {
        spec: { containers: readonly [KitContainer] }
      }
      return spec.containers[0].command
    },
  }
}

test('the kit of a static Pod works with the files and static Pods that kubeadm makes', async (t) => {
  const owner = openOwner(t)
  const added = readme.match(/`(--[a-z-]+=[\w]+)`/g)?.map((flag) => flag.replaceAll('`', '')) ?? []
  assert.deepEqual(added, ['--endpoint-reconciler-type=none', '--shutdown-watch-termination-grace-period=5s'])
  const { root, kubeadm, command } = await renderMaster(owner, added)
  const [client, peer, metrics, secure] = [await freePort(), await freePort(), await freePort(), await freePort()]
  /** Runs the command of a static Pod on this machine's ports, with `others` as the other flags that differ here. */
  const start = (pod: string, ...others: readonly string[]): Promise<RunningProcess> => {
    const [name = '', ...args] = command(pod).map((word) =>
      word
        .replaceAll(`,https://${address}:2379`, '')
        .replaceAll('127.0.0.1:2379', `127.0.0.1:${client}`)
        .replaceAll(`${address}:2379`, `127.0.0.1:${client}`)
        .replaceAll(`${address}:2380`, `127.0.0.1:${peer}`)
        .replaceAll('127.0.0.1:2381', `127.0.0.1:${metrics}`)
        .replaceAll('/var/lib/etcd', join(root, 'data')),
    )
    return RunningProcess.start(owner, { name, command: binary(name as 'etcd'), args: [...args, ...others] })
  }
  await start('etcd', '--unsafe-no-fsync')
  const server = await start('kube-apiserver', '--bind-address=127.0.0.1', `--secure-port=${secure}`)

  const onThisPort = (text: string): string => text.replace(`https://${address}:6443`, `https://127.0.0.1:${secure}`)
  const administrator = join(root, 'admin.conf')
  const administrators = await kubeadm('kubeconfig', 'user', '--client-name=admin', '--org=system:masters')
  writeFileSync(administrator, onThisPort(administrators), { mode: 0o600 })
  const kubectl = kubectlFor(owner, administrator)
  await server.whenReady(async () => (await kubectl('get', '--raw=/readyz')).code === 0, 120_000)
  const applied = await kubectl('apply', '-k', kitPath('kustomize/rbac-etcd'))
  assert.equal(applied.code, 0, applied.stderr)
  const folder = join(root, 'apiserver-bootstrap')
  mkdirSync(folder)
  const [, words = ''] = /`(\(umask 077; kubeadm .+\))`/.exec(readme) ?? []
  const making = words
    .replace('kubeadm kubeconfig user', `${binary('kubeadm')} kubeconfig user --config=${join(root, 'kubeadm.yaml')}`)
    .replace('/etc/kubernetes', root)
  await promisify(execFile)('sh', ['-c', `umask 022; ${making}`])
  const made = join(folder, 'kubeconfig')
  assert.equal(statSync(made).mode & 0o777, 0o600)
  writeFileSync(made, onThisPort(readFileSync(made, 'utf8')))

  const config = configurationOf(owner, 'kustomize/static-pod/sidecar.yaml', {
    etcdServers: [`https://127.0.0.1:${client}`],
    securePort: secure,
    healthBindAddress: '127.0.0.1:0',
  })
  const installed = readFileSync(config, 'utf8').replaceAll('/etc/kubernetes', root)
  writeFileSync(join(folder, 'sidecar.yaml'), installed)
  const places = {
    '/etc/kubernetes': root,
    '$(HOST_IP):6443': `127.0.0.1:${secure}`,
    '$(HOST_IP)': address,
  }
  const kit = programOf(await renderKit('kustomize/static-pod'))
  const sidecar = await Program.start(owner, argumentsOf(kit.command, places))
  const flags = [`--kubeconfig=${administrator}`, `--expect-addresses=${address}`, '--wait=60s']
  const store = [
    'etcd-cafile=etcd/ca.crt',
    'etcd-certfile=apiserver-etcd-client.crt',
    'etcd-keyfile=apiserver-etcd-client.key',
  ]
  const credentials = store.map((flag) => `--${flag.replace('=', `=${root}/pki/`)}`)
  const verify = await Program.start(owner, [
    'verify',
    ...flags,
    `--etcd-servers=https://127.0.0.1:${client}`,
    ...credentials,
  ])
  assert.deepEqual(await verify.process.exited, { code: 0, signal: null }, verify.process.tail(100))
  assert.match(verify.process.tail(100), / 0 failed, /)

  // The commands of the guide, on a fleet of one.
  const guide = readFileSync('docs/guides/upgrading.md', 'utf8').replaceAll(/\\\n */g, '')
  const commands = [...guide.matchAll(/^ *apiserver-bootstrap (.+)$/gm)].map(([, words = '']) => words)
  assert.deepEqual(
    commands.map((words) => words.split(' ', 1)[0]),
    ['config', 'verify'],
  )
  for (const words of commands) {
    const here = words
      .replace('--expect-masters 3', '--expect-masters 1')
      .replace(`${address}:6443`, `127.0.0.1:${secure}`)
    const args = here.replaceAll('/etc/kubernetes', root).split(' ')
    const { code, output } = await runToEnd(owner, args)
    assert.equal(code, 0, `${words}\n${output}`)
    // The sidecar's configuration shows `verify` where etcd is.
    if (words.startsWith('verify ')) assert.match(output, /^range-allocations +held/m)
  }
  assert.deepEqual(sidecar.logged(/forbidden|"level":"error"/), [])
  assert.deepEqual(await sidecar.stop(), { code: 0, signal: null })
})
