import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { CredentialFiles } from '../../src/etcd/connect-credentials.ts'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { openClient, patient, refusedWith } from '../etcd/etcd-client.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { listedIn, readState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { Program, runFlags, startMaster } from '../peers/program.ts'
import { askHealth, metricOf, whenReady } from '../peers/program-health.ts'
import { throughout, untilPasses } from '../peers/until.ts'

const withinMs = 30_000
const user = 'apiserver-bootstrap'
const nodePorts = '/registry/ranges/servicenodeports'
const times = ['--lease-ttl=6s', '--reconcile-interval=3s', '--repair-startup-timeout=3s']

/** Where a user may read or write. */
interface Permission {
  readonly permType: 'READ' | 'WRITE' | 'READWRITE'
  readonly prefix: string
}

/** The etcdctl commands of docs/etcd.md, and the permissions that they grant. */
const commands = (/```sh\n(.*?)```/s.exec(readFileSync('docs/etcd.md', 'utf8'))?.[1] ?? '')
  .split('\n')
  .filter((line) => line !== '')
const granted = commands.flatMap((line): Permission[] => {
  const [, type, prefix = ''] = /grant-permission \S+ --prefix (\w+) (\S+)$/.exec(line) ?? []
  return type === undefined ? [] : [{ permType: type.toUpperCase() as Permission['permType'], prefix }]
})

describe('the role of docs/etcd.md on an etcd with users', () => {
  const owner = openOwner({ after })
  const authority = new CertificateAuthority()
  let etcd: Etcd
  let server: Apiserver
  /** A client with all rights. */
  let root: EtcdKv
  let call: (path: string, body: unknown) => Promise<unknown>

  before(async () => {
    etcd = await startEtcd(owner, { authority })
    // The harness connects without a certificate.
    await etcd.call('/v3/auth/user/add', { name: 'harness', password: 'secret' })
    await etcd.call('/v3/auth/user/grant', { user: 'harness', role: 'root' })
    for (const command of commands) await etcd.call(...gatewayCall(command))
    const { token } = (await etcd.call('/v3/auth/authenticate', { name: 'harness', password: 'secret' })) as {
      readonly token: string
    }
    call = (path, body) => etcd.call(path, body, token)
    const files = certificateOf(owner, authority, 'kube-apiserver-etcd-client')
    root = openClient(owner, [etcd.url], files)
    server = await startApiserver(owner, { kind: 'bare', etcd, flags: flagsOf(files) })
  })

  const storeFlags = (name: string): readonly string[] => [
    `--etcd-servers=${etcd.url}`,
    ...flagsOf(certificateOf(owner, authority, name)),
  ]
  const start = (t: Owner, address: string, name = user, flags: readonly string[] = []): Promise<Program> =>
    startMaster(t, server, { address, host: address, flags: [...storeFlags(name), ...times, ...flags] })
  const run = async (t: Owner, args: readonly string[], { host = '', name = user } = {}) => {
    const program = await Program.start(t, [...args, `--kubeconfig=${server.kubeconfig}`, ...storeFlags(name)], host)
    const { code } = await program.process.exited
    return { code, output: program.process.lines.filter((line) => !line.startsWith('{')).join('\n') }
  }
  const withdraw = (t: Owner, address: string, name = user) => {
    const flags = runFlags(server, { address, flags: ['--on-shutdown=always'] }).filter(
      (flag) => !/^(run$|--kubeconfig|--health)/.test(flag),
    )
    return run(t, ['withdraw', ...flags], { host: address, name })
  }
  const listed = async (): Promise<readonly string[]> => listedIn((await readState(server.api)).endpoints)
  const untilListed = (...addresses: readonly string[]): Promise<void> =>
    untilPasses(addresses.join(), async () => assert.deepEqual(await listed(), addresses), { withinMs })
  const loseNodePorts = async (): Promise<void> => {
    const stored = await root.get(nodePorts, patient)
    if (stored !== undefined) await root.delete(nodePorts, stored.modRevision, patient)
  }

  test('the role suffices to join, renew, repair, withdraw, show and evict, and does not allow reads elsewhere', async (t) => {
    const owner = openOwner(t)
    const first = await start(owner, '192.0.2.1')
    await whenReady(first, withinMs)
    const leaseRevision = async (): Promise<bigint> =>
      (await root.get('/registry/masterleases/192.0.2.1', patient))?.modRevision ?? 0n
    const announced = await leaseRevision()
    for (const kind of ['certificate-authority', 'etcd-certfile', 'etcd-cafile']) {
      const metric = `apiserver_bootstrap_credentials_expiration_timestamp_seconds{kind="${kind}"}`
      assert.ok(((await metricOf(first, metric)) ?? 0) * 1000 > Date.now(), kind)
    }
    await loseNodePorts()
    await untilPasses('a repair', async () => assert.ok(await root.get(nodePorts, patient)), { withinMs })

    const second = await start(owner, '192.0.2.2')
    await untilListed('192.0.2.1', '192.0.2.2')
    const shown = await run(owner, ['masters'])
    assert.equal(shown.code, 0)
    for (const address of ['192.0.2.1', '192.0.2.2'])
      assert.match(shown.output, new RegExp(`^${address} .+ \\ds +yes +yes +-$`, 'm'))
    const out = await withdraw(owner, '192.0.2.2')
    assert.deepEqual(out, { code: 0, output: 'withdrawn: 192.0.2.2 was removed from the list' })
    await untilListed('192.0.2.1')
    assert.deepEqual(await second.stop(), { code: 0, signal: null })

    const third = await start(owner, '192.0.2.3')
    await untilListed('192.0.2.1', '192.0.2.3')
    await third.kill()
    const evicted = await run(owner, ['masters', 'evict', '192.0.2.3', '--force', '--yes'])
    assert.equal(evicted.code, 0, evicted.output)
    await untilListed('192.0.2.1')
    for (const { prefix } of granted) {
      const { items } = await root.list(prefix, { signal: patient })
      assert.equal(items.filter(({ key }) => key.includes('192.0.2.3')).length, 0)
    }

    await untilPasses('a renewal', async () => assert.ok((await leaseRevision()) > announced), { withinMs })
    assert.deepEqual(await first.stop(), { code: 0, signal: null })
    for (const master of [first, second, third]) assert.deepEqual(master.logged(/refuse|denied/), [])
    const own = openClient(owner, [etcd.url], certificateOf(owner, authority, user))
    await refusedWith(
      'PermissionDenied',
      own.list('/registry/services/', { signal: patient }),
      /needs the permission to read/,
    )
    await refusedWith('PermissionDenied', own.list('/registry/apiserver-bootstrap/', { signal: patient }))
  })

  test('without any one right of the role an operation fails and names the right', async (t) => {
    const owner = openOwner(t)
    const lacking = granted.flatMap((permission) =>
      (['READ', 'WRITE'] as const).map((lacks) => ({ ...permission, lacks, name: `${lacks} ${permission.prefix}` })),
    )
    for (const { name, prefix, lacks } of lacking) {
      const rest = granted.filter((other) => other.prefix !== prefix)
      await addUser(call, name, [...rest, { prefix, permType: lacks === 'READ' ? 'WRITE' : 'READ' }])
    }
    await loseNodePorts()
    const masters = await Promise.all(
      lacking.map(({ name, prefix }, index) =>
        start(owner, `192.0.2.${11 + index}`, name, prefix.includes('ranges') ? [] : ['--range-registry=none']),
      ),
    )
    for (const [index, master] of masters.entries()) {
      const { prefix, lacks, name } = lacking[index] as (typeof lacking)[number]
      const takes = new RegExp(
        `etcdserver: permission denied; this needs the permission to read ${lacks === 'READ' ? '' : 'and write '}.*${prefix}`,
      )
      if (prefix.includes('ranges')) {
        const line = await master.waitForLog(/node-port-repair.+the duty is degraded/, withinMs)
        assert.match(String(line.reason), takes, name)
        const { status, text } = await askHealth(master, '/readyz?verbose')
        assert.equal(status, 500)
        assert.match(text, /^\[-\]node-port-repair failed/m)
        assert.match(text, /^\[\+\]kubernetes-service ok$/m)
      } else {
        await untilPasses(name, () => assert.deepEqual(master.process.exit, { code: 1, signal: null }), { withinMs })
        const [line] = master.logged(/"level":"error"/)
        assert.match(String(line?.message), takes, name)
      }
    }
    await untilListed('192.0.2.15', '192.0.2.16')

    await Promise.all(
      lacking.map(async ({ prefix, lacks, name }) => {
        const { code, output } = await run(owner, ['masters'], { name })
        if (prefix.includes('ranges') || lacks === 'WRITE') assert.equal(code, 0, name)
        else
          assert.match(
            output,
            new RegExp(`^apiserver-bootstrap: .+ this needs the permission to read all of ${prefix}$`),
          )
      }),
    )
    const writing = lacking.filter(({ prefix, lacks }) => lacks === 'WRITE' && !prefix.includes('ranges'))
    // What is written before the refusal takes effect: a master whose record was marked leaves.
    for (const command of [['masters', 'evict', '--force', '--yes'], ['withdraw']]) {
      await Promise.all(
        writing.map(async ({ prefix, name }, index) => {
          const address = `192.0.2.${15 + index}`
          const [first] = command
          const { code, output } =
            first === 'withdraw'
              ? await withdraw(owner, address, name)
              : await run(owner, [...command, address], { name })
          assert.deepEqual([first, name, code], [first, name, 1])
          assert.match(
            output,
            new RegExp(`^apiserver-bootstrap: .+ this needs the permission to read and write ${prefix}${address}`),
          )
        }),
      )
    }
  })

  test('the list does not change while masters lack their rights, and they continue when the rights are back', async (t) => {
    const owner = openOwner(t)
    const masters = [await start(owner, '192.0.2.21'), await start(owner, '192.0.2.22')]
    await untilListed('192.0.2.21', '192.0.2.22')
    for (const master of masters) await whenReady(master, withinMs)
    const stay = async (): Promise<void> => assert.deepEqual(await listed(), ['192.0.2.21', '192.0.2.22'])

    await call('/v3/auth/user/revoke', { name: user, role: user })
    // Longer than a lease lasts.
    await throughout(8_000, stay)
    for (const master of masters) {
      assert.equal(master.logged(/"source":"lease".+refuses/).length, 1)
      assert.match((await askHealth(master, '/readyz?verbose')).text, /^\[-\]kubernetes-service failed/m)
    }
    await call('/v3/auth/user/grant', { user, role: user })
    await throughout(5_000, stay)
    for (const master of masters) {
      await whenReady(master, withinMs)
      assert.equal(master.logged(/"source":"lease".+no longer refuses/).length, 1)
    }
  })
})

/** The request to etcd's JSON gateway that replaces an etcdctl command. */
function gatewayCall(command: string): readonly [path: string, body: unknown] {
  const [, noun, verb, name = '', ...rest] = command.split(' ')
  switch (`${noun} ${verb}`) {
    case 'user add':
      assert.deepEqual(rest, ['--no-password'])
      return ['/v3/auth/user/add', { name, options: { noPassword: true } }]
    case 'user grant-role':
      return ['/v3/auth/user/grant', { user: name, role: rest[0] }]
    case 'role add':
      return ['/v3/auth/role/add', { name }]
    case 'role grant-permission': {
      const permission = granted.find(({ prefix }) => prefix === rest[2])
      assert.ok(permission, command)
      return ['/v3/auth/role/grant', grantOf(name, permission)]
    }
    case 'auth enable':
      return ['/v3/auth/enable', {}]
    default:
      assert.fail(command)
  }
}

function grantOf(name: string, { permType, prefix }: Permission): unknown {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  return { name, perm: { permType, key: base64(prefix), range_end: base64(prefix.replace(/\/$/, '0')) } }
}

/** A user with a role of its own. */
async function addUser(
  call: (path: string, body: unknown) => Promise<unknown>,
  name: string,
  permissions: readonly Permission[],
): Promise<void> {
  await call('/v3/auth/role/add', { name })
  for (const permission of permissions) await call('/v3/auth/role/grant', grantOf(name, permission))
  await call('/v3/auth/user/add', { name, options: { noPassword: true } })
  await call('/v3/auth/user/grant', { user: name, role: name })
}

/** A client certificate that etcd accepts for this user. */
function certificateOf(owner: Owner, authority: CertificateAuthority, name: string): Required<CredentialFiles> {
  const directory = temporaryDirectory(owner, 'client')
  const file = (name: string, content: string): string => {
    const path = join(directory, name)
    writeFileSync(path, content, { mode: 0o600 })
    return path
  }
  const { certificate, key } = authority.issue({ commonName: name })
  return {
    cafile: file('ca.crt', authority.certificate),
    certfile: file('client.crt', certificate),
    keyfile: file('client.key', key),
  }
}

function flagsOf({ cafile, certfile, keyfile }: CredentialFiles): readonly string[] {
  return [`--etcd-cafile=${cafile}`, `--etcd-certfile=${certfile}`, `--etcd-keyfile=${keyfile}`]
}
