import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { CertificateAuthority } from '../peers/certificates.ts'
import { startEtcd } from '../peers/etcd.ts'
import { type KitContainer, kitPath, readKit } from '../peers/kits.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { explain, judgeVersions, listKeys, lists } from '../peers/listing-judge.ts'
import { type Machine, startMachine } from '../peers/machine.ts'
import { openOwner } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'
import { followKeys } from '../peers/stored-versions.ts'

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
export const withinMs = 60_000
export const ended = { code: 0, signal: null }

/**
 * The flags that a kit gives the API server because of its sidecar: its own reconciler is off, and at its end it serves
 * for a while longer.
 */
export function serverFlags(which = /^--(?:endpoint-reconciler-type|shutdown-)/): readonly string[] {
  const { spec } = readKit<{ spec: { template: { spec: { containers: readonly KitContainer[] } } } }>(
    'kustomize/in-a-pod/deployment.yaml',
  )
  const flags = spec.template.spec.containers.flatMap(({ command }) => command)
  // The shortest delay that the kit allows.
  return flags.filter((flag) => which.test(flag)).map((flag) => flag.replace('delay-duration=10s', 'delay-duration=5s'))
}

/** The command that the README of the kit requires before a kube-apiserver is stopped. */
function withdrawal(): readonly string[] {
  const readme = readFileSync(kitPath('kustomize/static-pod/README.md'), 'utf8')
  return (
    /`kubectl exec [^`]+ -- apiserver-bootstrap (withdraw [^`]+)`/.exec(readme)?.[1]?.split(' ') ??
    assert.fail('the README has no withdraw')
  )
}

/** Three masters of the kit, all listed; every version of the list is judged. */
export interface KitFleet {
  readonly machines: readonly Machine[]
  readonly sidecars: ReadonlyMap<Machine, Program>
  startSidecar(machine: Machine): Promise<void>
  stopSidecar(machine: Machine): Promise<void>
  /** Runs the kit's command. */
  withdraw(machine: Machine): Promise<void>
  /** The address of a machine may be off the list while `change` lasts, and until it is listed again. */
  meanwhileAway(machine: Machine, change: () => Promise<void>): Promise<void>
  /** `verify --wait` with the rights of its own role. */
  verify(step: string): Promise<void>
  /** Asserts that no address was lost except by intent, and that at least `versions` versions were written. */
  judge(versions: number): Promise<void>
}

export async function startKitFleet(t: TestContext): Promise<KitFleet> {
  const owner = openOwner(t)
  const authority = new CertificateAuthority()
  const etcd = await startEtcd(owner, { authority })
  const followed = await followKeys(owner, [etcd], Object.values(listKeys()))
  const start = (index: number, securePort?: number): Promise<Machine> =>
    startMachine(owner, {
      kit: 'kustomize/static-pod',
      configuration: readKit('kustomize/static-pod/sidecar.yaml'),
      address: addresses[index] as string,
      host: `host-${index + 1}`,
      server: { kind: 'bare', flags: serverFlags() },
      ...(securePort !== undefined && { securePort }),
      store: etcd,
      authority,
      user: { commonName: 'apiserver-bootstrap' },
    })
  const last = await start(2)
  // A kube-apiserver lists its own port for all.
  const { port: securePort } = last.server
  const machines = [...(await Promise.all([start(0, securePort), start(1, securePort)])), last]
  const [first] = machines as [Machine]
  const kubectl = kubectlFor(owner, first.server.kubeconfig)
  for (const rights of ['rbac-etcd', 'rbac-verify']) {
    const applied = await kubectl('apply', '-k', kitPath(`kustomize/${rights}`))
    assert.equal(applied.code, 0, applied.stderr)
  }
  const sidecars = new Map<Machine, Program>()
  const startSidecar = async (machine: Machine) => void sidecars.set(machine, await machine.start())
  const stopSidecar = async (machine: Machine) => assert.deepEqual(await sidecars.get(machine)?.stop(), ended)
  const withdraw = async (machine: Machine): Promise<void> => {
    const program = await machine.run(withdrawal())
    assert.deepEqual(await program.process.exited, ended, program.process.tail())
  }
  for (const machine of machines) await startSidecar(machine)

  const away: { readonly address: string; readonly fromMs: number; toMs: number }[] = []
  const whenAllListed = () => whenRight(first.server.api, { addresses, port: securePort }, withinMs)
  const verifier = first.kubeconfig({ commonName: 'apiserver-bootstrap-verify' })
  const verify = async (step: string): Promise<void> => {
    const flags = [`--kubeconfig=${verifier}`, ...first.store, `--expect-addresses=${addresses.join()}`, '--wait=60s']
    const program = await Program.start(owner, ['verify', ...flags])
    assert.deepEqual(await program.process.exited, ended, `${step}\n${program.process.tail(100)}`)
    assert.match(program.process.tail(100), / 0 failed, /)
  }
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

  const judge = async (versions: number): Promise<void> => {
    await followed.caughtUp()
    const judgement = judgeVersions(followed.versions, since, addresses, lives)
    assert.equal(explain(judgement), '')
    const unserved = followed.versions.filter(
      (version) => !addresses.some((address) => lists(version, address) && lives(address, version.atMs)),
    )
    assert.deepEqual(unserved, [], 'every version lists a master that serves')
    assert.ok(followed.versions.length - since >= versions, `${followed.versions.length} versions`)
    for (const sidecar of sidecars.values()) {
      sidecar.assertRunning()
      assert.deepEqual(sidecar.logged(/cannot (?:get|list|watch|create|update|patch|delete) resource/), [])
    }
  }
  return { machines, sidecars, startSidecar, stopSidecar, withdraw, meanwhileAway, verify, judge }
}
