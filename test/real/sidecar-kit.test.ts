import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import {
  argumentsOf,
  configurationOf,
  type KitContainer,
  kitPath,
  programOf,
  readKit,
  renderKit,
} from '../peers/kits.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { explain, judgeVersions, listKeys, lists } from '../peers/listing-judge.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'
import { followKeys } from '../peers/stored-versions.ts'

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
const withinMs = 60_000
const ended = { code: 0, signal: null }

/** One machine of kubeadm's: its API server, and what the kit of a static Pod puts beside it. */
interface Machine {
  readonly address: string
  readonly server: Apiserver
  sidecar: Program
  start(): Promise<Program>
  /** Runs a command of the kit to its end. */
  run(args: readonly string[]): Promise<void>
  /** Of a user. */
  kubeconfig(user: string): string
  /** The flags with which an observer finds the leases. */
  readonly store: readonly string[]
  /** The flags of a kube-apiserver with its own reconciler. */
  readonly own: readonly string[]
}

/** The files of /etc/kubernetes that the kit names, in a folder of the machine's own. */
async function startMachine(
  owner: Owner,
  etcd: Etcd,
  authority: CertificateAuthority,
  options: { readonly address: string; readonly host: string; readonly securePort: number | undefined },
): Promise<Omit<Machine, 'sidecar'>> {
  const { address, host } = options
  const root = temporaryDirectory(owner, 'machine')
  const file = (name: string): string => join(root, name)
  mkdirSync(file('pki/etcd'), { recursive: true })
  const client = authority.issue({ commonName: 'kube-apiserver-etcd-client' })
  writeFileSync(file('pki/etcd/ca.crt'), authority.certificate)
  writeFileSync(file('pki/apiserver-etcd-client.crt'), client.certificate)
  writeFileSync(file('pki/apiserver-etcd-client.key'), client.key, { mode: 0o600 })
  const credentials = [
    `--etcd-cafile=${file('pki/etcd/ca.crt')}`,
    `--etcd-certfile=${file('pki/apiserver-etcd-client.crt')}`,
    `--etcd-keyfile=${file('pki/apiserver-etcd-client.key')}`,
  ]
  const server = await startApiserver(owner, {
    kind: 'bare',
    etcd,
    advertiseAddress: address,
    authorization: 'RBAC',
    flags: [...credentials, ...serverFlags()],
  })
  const kubeconfig = (user: string): string => {
    const { certificate, key } = server.authority.issue({ commonName: user })
    return writeKubeconfig(file(`${user}.conf`), {
      server: server.url,
      ca: server.authority.certificate,
      user: {
        'client-certificate-data': Buffer.from(certificate).toString('base64'),
        'client-key-data': Buffer.from(key).toString('base64'),
      },
    })
  }
  kubeconfig('apiserver-bootstrap')
  const kit = await renderKit('kustomize/static-pod')
  const config = configurationOf(owner, 'kustomize/static-pod/sidecar.yaml', {
    etcdServers: [etcd.url],
    securePort: options.securePort ?? server.port,
    // All machines are this one.
    hostnameOverride: host,
    healthBindAddress: '127.0.0.1:0',
  })
  writeFileSync(file('apiserver-bootstrap.yaml'), readFileSync(config, 'utf8').replaceAll('/etc/kubernetes', root))
  const places = {
    '/etc/kubernetes': root,
    '$(HOST_IP):6443': `127.0.0.1:${server.port}`,
    '$(HOST_IP)': address,
  }
  return {
    address,
    server,
    start: () => Program.start(owner, argumentsOf(programOf(kit).command, places)),
    async run(args) {
      const program = await Program.start(owner, argumentsOf(['apiserver-bootstrap', ...args], places))
      assert.deepEqual(await program.process.exited, ended, program.process.tail())
    },
    kubeconfig,
    store: [`--etcd-servers=${etcd.url}`, ...credentials],
    own: [...credentials, ...serverFlags().filter((flag) => !flag.startsWith('--endpoint-reconciler-type'))],
  }
}

/** What a kit gives the API server because of its sidecar: its own reconciler is off; at its end it serves on for a while. */
function serverFlags(): readonly string[] {
  const { spec } = readKit<{ spec: { template: { spec: { containers: readonly KitContainer[] } } } }>(
    'kustomize/in-a-pod/deployment.yaml',
  )
  const flags = spec.template.spec.containers.flatMap(({ command }) => command)
  return flags.filter((flag) => /^--(?:endpoint-reconciler-type|shutdown-)/.test(flag))
}

/** What the README of the kit says to run before a kube-apiserver is stopped. */
function withdrawal(): readonly string[] {
  const readme = readFileSync(kitPath('kustomize/static-pod/README.md'), 'utf8')
  return /`(withdraw [^`]+)`/.exec(readme)?.[1]?.split(' ') ?? assert.fail('the README has no withdraw')
}

test('three masters of the kit: a rolling restart of all six processes, and a migration to kube-apiserver and back, lose no address but by intent', async (t) => {
  const owner = openOwner(t)
  const authority = new CertificateAuthority()
  const etcd = await startEtcd(owner, { authority })
  const followed = await followKeys(owner, [etcd], Object.values(listKeys()))
  const third = await startMachine(owner, etcd, authority, {
    address: addresses[2],
    host: 'host-3',
    securePort: undefined,
  })
  // A kube-apiserver lists its own port for all.
  const { port: securePort } = third.server
  const others = await Promise.all(
    addresses
      .slice(0, 2)
      .map((address, index) =>
        startMachine(owner, etcd, authority, { address, host: `host-${index + 1}`, securePort }),
      ),
  )
  const kubectl = kubectlFor(owner, third.server.kubeconfig)
  for (const rights of ['rbac-etcd', 'rbac-verify']) {
    const applied = await kubectl('apply', '-k', kitPath(`kustomize/${rights}`))
    assert.equal(applied.code, 0, applied.stderr)
  }
  const machines: Machine[] = []
  for (const machine of [...others, third]) machines.push({ ...machine, sidecar: await machine.start() })
  const [first, , last] = machines as [Machine, Machine, Machine]

  const away: { readonly address: string; readonly fromMs: number; toMs: number }[] = []
  const whenAllListed = () => whenRight(first.server.api, { addresses, port: securePort }, withinMs)
  const verifier = first.kubeconfig('apiserver-bootstrap-verify')
  const verify = async (step: string): Promise<void> => {
    const flags = [`--kubeconfig=${verifier}`, ...first.store, `--expect-addresses=${addresses.join()}`, '--wait=60s']
    const program = await Program.start(owner, ['verify', ...flags])
    assert.deepEqual(await program.process.exited, ended, `${step}\n${program.process.tail(100)}`)
    assert.match(program.process.tail(100), / 0 failed, /)
  }
  /** The address of a machine may be off the list while `change` lasts, and until it is listed again. */
  const meanwhileAway = async ({ address }: Machine, change: () => Promise<void>): Promise<void> => {
    const span = { address, fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY }
    void away.push(span)
    await change()
    await whenAllListed()
    await followed.caughtUp()
    span.toMs = performance.now()
  }
  const lives = (address: string, atMs: number): boolean =>
    !away.some((span) => span.address === address && span.fromMs <= atMs && atMs <= span.toMs)

  await whenAllListed()
  await followed.caughtUp()
  const since = followed.versions.length
  await verify('at the start')

  for (const machine of machines) {
    await meanwhileAway(machine, async () => {
      // As the kubelet ends a Pod: the preStop hook and the API server's SIGTERM at once, the native sidecar last.
      const stopped = machine.server.process.stop()
      await machine.run(withdrawal())
      assert.deepEqual(await stopped, ended)
      assert.deepEqual(await machine.sidecar.stop(), ended)
      machine.sidecar = await machine.start()
      await machine.server.start()
    })
    await verify(`after the restart of ${machine.address}`)
  }

  await meanwhileAway(last, async () => {
    await last.run(withdrawal())
    assert.deepEqual(await last.server.process.stop(), ended)
    await last.server.start({ kind: 'stock', flags: last.own })
  })
  await verify('with a kube-apiserver beside a sidecar')
  assert.deepEqual(await last.sidecar.stop(), ended)
  // More than an interval of kube-apiserver's reconciler.
  await sleep(12_000)
  await verify('with a kube-apiserver without a sidecar')

  last.sidecar = await last.start()
  await sleep(2_000)
  await verify('with a sidecar beside the kube-apiserver again')
  await meanwhileAway(last, async () => {
    assert.deepEqual(await last.server.process.stop(), ended)
    await last.server.start({ kind: 'bare', flags: [...last.own, '--endpoint-reconciler-type=none'] })
  })
  await verify('after the way back')

  await followed.caughtUp()
  const judgement = judgeVersions(followed.versions, since, addresses, lives)
  assert.equal(explain(judgement), '')
  const unserved = followed.versions.filter(
    (version) => !addresses.some((address) => lists(version, address) && lives(address, version.atMs)),
  )
  assert.deepEqual(unserved, [], 'every version lists a master that serves')
  // Each departure was written, so that the judgement had something to judge.
  assert.ok(followed.versions.length - since >= 4 * 2 * addresses.length - 4, `${followed.versions.length} versions`)
  for (const { sidecar } of machines) {
    sidecar.assertRunning()
    assert.deepEqual(sidecar.logged(/cannot (?:get|list|watch|create|update|patch|delete) resource/), [])
  }
})
