import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { freePort } from '../support/free-port.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

const program = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

/** Runs the program in a home of its own, where no cluster is named. */
async function run(t: TestContext, args: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const env = { HOME: await tempDir(t), KUBECONFIG: undefined, KUBERNETES_SERVICE_HOST: undefined, ...more }
  const child = await spawnChild(t, process.execPath, [program, ...args], { env })
  const { code } = await child.exited
  return { code, stdout: child.stdout(), stderr: child.stderr().split('\n').slice(0, -1) }
}

async function kubeconfigFor(directory: string, port: number): Promise<string> {
  const file = join(directory, 'config')
  await mkdir(directory, { recursive: true })
  return writeKubeconfig(file, { server: `http://127.0.0.1:${port}` })
}

suite('masters', { concurrency: 2 }, () => {
  const wrong: readonly (readonly [args: readonly string[], ...lines: readonly string[]])[] = [
    [['evict'], "missing required argument 'ADDRESS'; see --help"],
    [
      ['evict', '192.0.2.1', '192.0.2.2'],
      "too many arguments for 'evict'. Expected 1 argument but got 2: 192.0.2.1, 192.0.2.2; see --help",
    ],
    [['evict', '192.0.2'], 'ADDRESS: "192.0.2" is not an IP address: an IPv4 address has four parts'],
    [['evict', '192.0.2.1', '--watch'], "unknown option '--watch'; see --help"],
    [['--output', 'json', 'evict', '192.0.2.1'], "'masters evict' does not take all flags of 'masters'; see --help"],
    [['evict', '--yes', '192.0.2.1', '--lease-store', 'etcd'], '--lease-store: etcd needs --etcd-servers'],
    [
      ['--output', 'xml', '--watch=maybe'],
      '--output: must be one of table, json, not "xml"',
      '--watch: must be true or false, not "maybe"',
    ],
    [['--lease-store', 'memory'], '--lease-store: memory is out of reach of another process'],
    [[], '--kubeconfig: no cluster is named: give --kubeconfig FILE or set KUBECONFIG (there is no ~/.kube/config)'],
    [['--embedded'], "unknown option '--embedded'; see --help"],
  ]
  for (const [args, ...lines] of wrong) {
    test(`${JSON.stringify(args)} is refused with exit code 2`, async (t) => {
      assert.deepEqual(await run(t, ['masters', ...args]), { code: 2, stdout: '', stderr: lines })
    })
  }

  test('the API server is the one of the flag, else of KUBECONFIG, else of the home; when none answers the exit code is 1', async (t) => {
    const directory = await tempDir(t)
    const [flag, variable, home] = [await freePort(), await freePort(), await freePort()]
    const FLAG = await kubeconfigFor(join(directory, 'flag'), flag)
    const KUBECONFIG = await kubeconfigFor(join(directory, 'variable'), variable)
    await kubeconfigFor(join(directory, '.kube'), home)
    const asked: readonly (readonly [port: number, args: readonly string[], env: Readonly<Record<string, string>>])[] =
      [
        [flag, ['--kubeconfig', FLAG], { HOME: directory, KUBECONFIG }],
        [variable, [], { HOME: directory, KUBECONFIG }],
        [home, [], { HOME: directory }],
      ]
    for (const [port, args, env] of asked) {
      const { code, stdout, stderr } = await run(t, ['masters', ...args], env)
      assert.deepEqual([code, stdout, stderr.length], [1, '', 1])
      assert.match(stderr[0] ?? '', new RegExp(`^apiserver-bootstrap: .*127\\.0\\.0\\.1:${port}`))
    }
  })

  test('where no lease is found, one line on stderr says what was looked for, where, and which flag looks elsewhere', async (t) => {
    let listed: readonly string[] = []
    const { url } = await startServer(t, (request, response) => {
      const subsets = [{ addresses: listed.map((ip) => ({ ip })), ports: [{ name: 'https', port: 6443 }] }]
      const body = request.url?.includes('/leases')
        ? { kind: 'LeaseList', metadata: { resourceVersion: '1' }, items: [] }
        : { kind: 'Endpoints', metadata: { name: 'kubernetes', namespace: 'default' }, subsets }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
    const kubeconfig = await kubeconfigFor(await tempDir(t), Number(url.port))
    const searched = (namespace: string) => [
      `no leases of masters among the Leases in ${namespace} with the label apiserver-bootstrap/lease=master (--lease-namespace names another namespace; for leases in etcd give --etcd-servers)`,
    ]
    const masters = (...flags: readonly string[]) => run(t, ['masters', '--kubeconfig', kubeconfig, ...flags])
    const nobody = { code: 0, stdout: 'no masters, and nobody is listed\n' }
    assert.deepEqual(await masters(), { ...nobody, stderr: searched('kube-system') })
    assert.deepEqual(await masters('--lease-namespace=leases'), { ...nobody, stderr: searched('leases') })
    listed = ['192.0.2.1']
    const { stdout, stderr } = await masters('--output=json')
    assert.deepEqual(stderr, searched('kube-system'))
    assert.deepEqual(JSON.parse(stdout).masters[0].conflicts[0].code, 'listed-without-lease')
  })

  test('flags of masters may stand before evict where evict has them too', async (t) => {
    const args = ['masters', '--etcd-servers', `http://127.0.0.1:${await freePort()}`, 'evict', '192.0.2.1']
    const { code, stderr } = await run(t, args)
    assert.equal(code, 1)
    assert.match(stderr.join('\n'), /^apiserver-bootstrap: etcd http:\/\/127\.0\.0\.1:\d+: /)
  })

  test('the help names evict and its address, and no flag that has no use', async (t) => {
    const [masters, evict] = await Promise.all([run(t, ['masters', '--help']), run(t, ['masters', 'evict', '--help'])])
    assert.deepEqual([masters.code, evict.code], [0, 0])
    assert.match(masters.stdout, /^ {2}evict /m)
    assert.match(evict.stdout, /^Usage: apiserver-bootstrap masters evict ADDRESS \[flags\]$/m)
    for (const text of [masters.stdout, evict.stdout]) assert.doesNotMatch(text, /--(?:embedded|advertise-address) /)
  })
})
