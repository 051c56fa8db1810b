import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { changeKey, MastersScreen, mastersJson, mastersTable } from '../../src/commands/masters.ts'
import type { MasterRow } from '../../src/kubernetes-service/masters/masters.ts'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { freePort } from '../peers/ports.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { program } from './command-line.ts'

/** Runs the program with its own home directory, without a configured cluster. */
async function run(t: TestContext, args: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const env = { HOME: await tempDir(t), KUBECONFIG: undefined, KUBERNETES_SERVICE_HOST: undefined, ...more }
  const child = await spawnChild(t, process.execPath, [program, ...args], { env })
  const { code } = await child.exited
  return { code, stdout: child.stdout(), stderr: child.stderr().split('\n').slice(0, -1) }
}

/** The port of a server that ends each connection. Another test could take a free port in the meantime. */
async function silentPort(t: TestContext): Promise<number> {
  const server = createServer((socket) => socket.destroy())
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
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
    [['--lease-store', 'memory'], '--lease-store: leases in memory are not accessible to other processes'],
    [[], '--kubeconfig: no cluster is configured: set --kubeconfig FILE or KUBECONFIG (~/.kube/config does not exist)'],
    [['--embedded'], "unknown option '--embedded'; see --help"],
  ]
  for (const [args, ...lines] of wrong) {
    test(`${JSON.stringify(args)} is rejected with exit code 2`, async (t) => {
      assert.deepEqual(await run(t, ['masters', ...args]), { code: 2, stdout: '', stderr: lines })
    })
  }

  test('the kubeconfig comes from the flag, else KUBECONFIG, else the home; if the server is unreachable the exit code is 1', async (t) => {
    const directory = await tempDir(t)
    const [flag, variable, home] = [await silentPort(t), await silentPort(t), await silentPort(t)]
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

  test('if no lease is found, one line on stderr states what was searched, where, and which flags search elsewhere', async (t) => {
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
      `no leases of masters among the Leases in ${namespace} with the label apiserver-bootstrap/lease=master (set --lease-namespace for another namespace; set --etcd-servers to use leases in etcd)`,
    ]
    const masters = (...flags: readonly string[]) => run(t, ['masters', '--kubeconfig', kubeconfig, ...flags])
    const nobody = { code: 0, stdout: 'no masters, and none is listed\n' }
    assert.deepEqual(await masters(), { ...nobody, stderr: searched('kube-system') })
    assert.deepEqual(await masters('--lease-namespace=leases'), { ...nobody, stderr: searched('leases') })
    const refused = await run(t, ['masters', 'evict', '192.0.2.1', '--kubeconfig', kubeconfig])
    assert.deepEqual([refused.code, refused.stdout, refused.stderr.length], [1, '', 1])
    listed = ['192.0.2.1']
    const { stdout, stderr } = await masters('--output=json')
    assert.deepEqual(stderr, searched('kube-system'))
    assert.deepEqual(JSON.parse(stdout).masters[0].conflicts[0].code, 'listed-without-lease')
  })

  test('flags of masters that evict also has may precede evict', async (t) => {
    const args = ['masters', '--etcd-servers', `http://127.0.0.1:${await freePort()}`, 'evict', '192.0.2.1']
    const { code, stderr } = await run(t, args)
    assert.equal(code, 1)
    assert.match(stderr.join('\n'), /^apiserver-bootstrap: etcd http:\/\/127\.0\.0\.1:\d+: /)
  })

  test('the help names evict and its address, and no unusable flags', async (t) => {
    const [masters, evict] = await Promise.all([run(t, ['masters', '--help']), run(t, ['masters', 'evict', '--help'])])
    assert.deepEqual([masters.code, evict.code], [0, 0])
    assert.match(masters.stdout, /^ {2}evict /m)
    assert.match(evict.stdout, /^Usage: apiserver-bootstrap masters evict ADDRESS \[flags\]$/m)
    for (const text of [masters.stdout, evict.stdout]) assert.doesNotMatch(text, /--(?:embedded|advertise-address) /)
  })
})

const ready: MasterRow = {
  address: '192.0.2.1',
  holder: {
    instanceId: '0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8',
    host: 'control-1',
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: ['192.0.2.1'],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
  },
  ageMs: 184_000,
  life: { type: 'ends', leftMs: 12_000 },
  verdict: 'live',
  leased: true,
  listed: true,
  conflicts: [],
  id: '/registry/masterleases/192.0.2.1',
  revision: '41',
}
const foreign: MasterRow = {
  ...ready,
  address: '192.0.2.20',
  holder: undefined,
  ageMs: undefined,
  life: { type: 'never' },
  verdict: 'stale',
  listed: false,
  conflicts: [
    { code: 'no-holder', message: 'no holder record' },
    { code: 'never-ends', message: 'this lease never expires' },
  ],
}
const unknown: MasterRow = {
  ...foreign,
  life: undefined,
  verdict: undefined,
  leased: false,
  listed: undefined,
  id: undefined,
  revision: undefined,
  conflicts: [],
}

test('the table is as wide as its content, and unknown values are a dash', () => {
  assert.deepEqual(mastersTable([ready, foreign, { ...unknown, address: '192.0.2.9' }]), [
    'ADDRESS     HOLDER    HOST       AGE   LEFT   LISTED  READY  CONFLICTS',
    '192.0.2.1   0b1c2d3e  control-1  3m4s  12s    yes     yes    -',
    '192.0.2.20  -         -          -     never  no      -      no holder record; this lease never expires',
    '192.0.2.9   -         -          -     -      -       -      -',
  ])
})

test('a host name of any length or width leaves the other columns visible', () => {
  const named = (host: string): MasterRow => ({ ...ready, holder: { ...ready.holder, host } as MasterRow['holder'] })
  const lines = mastersTable([named('x'.repeat(300)), named('宽'.repeat(3))])
  assert.ok(lines.every((line) => line.length < 130))
  assert.match(lines[2] ?? '', /^192\.0\.2\.1 {2}0b1c2d3e {2}\\u\{5bbd\}\\u\{5bbd\}\\u\{5bbd\} +3m4s /)
})

test('a time left that is only an estimate has a tilde, and an unrenewed lease is over', () => {
  const left = (row: Partial<MasterRow>) => mastersTable([{ ...ready, ...row }])[1]?.split(/ {2,}/)[4]
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: 9_000 }, verdict: 'unknown' }), '~9s')
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: undefined }, verdict: 'unknown' }), '-')
  assert.equal(left({ life: { type: 'renewed', ttlMs: 15_000, leftMs: -9_000 }, verdict: 'stale' }), 'over')
  assert.equal(left({ leased: false }), '-')
})

test('a master that is not ready shows its state', () => {
  const holder = ready.holder && { ...ready.holder, state: 'leaving' as const }
  assert.match(mastersTable([{ ...ready, holder }])[1] ?? '', / leaving +-$/)
})

test('the JSON has all fields, and unknown values are null', () => {
  const about = { leaseStore: 'etcd', listed: ['192.0.2.1'] }
  assert.deepEqual(mastersJson([ready, { ...unknown, address: undefined }], about), {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'MasterList',
    leaseStore: 'etcd',
    listedAddresses: ['192.0.2.1'],
    masters: [
      {
        address: '192.0.2.1',
        holder: '0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8',
        host: 'control-1',
        startedAt: '2026-01-01T00:00:00.000000Z',
        ageSeconds: 184,
        hasLease: true,
        neverEnds: false,
        leftSeconds: 12,
        live: true,
        listed: true,
        state: 'ready',
        ready: true,
        conflicts: [],
        id: '/registry/masterleases/192.0.2.1',
        revision: '41',
      },
      {
        address: null,
        holder: null,
        host: null,
        startedAt: null,
        ageSeconds: null,
        hasLease: false,
        neverEnds: false,
        leftSeconds: null,
        live: null,
        listed: null,
        state: null,
        ready: null,
        conflicts: [],
        id: null,
        revision: null,
      },
    ],
  })
  const [never] = (mastersJson([foreign], { leaseStore: 'etcd', listed: undefined }) as { masters: object[] }).masters
  assert.deepEqual(
    [never, (never as { live: unknown }).live],
    [{ ...never, neverEnds: true, leftSeconds: null }, false],
  )
})

test('passing time and renewals are not changes', () => {
  const later: MasterRow = { ...ready, ageMs: 185_000, life: { type: 'ends', leftMs: 15_000 }, revision: '42' }
  assert.equal(changeKey([later]), changeKey([ready]))
  assert.equal(changeKey([{ ...ready, verdict: 'unknown' }]), changeKey([ready]))
  for (const change of [
    { listed: false },
    { verdict: 'stale' },
    { leased: false },
    { conflicts: foreign.conflicts },
  ] as const) {
    assert.notEqual(changeKey([{ ...ready, ...change }]), changeKey([ready]))
  }
  assert.notEqual(changeKey([ready, foreign]), changeKey([ready]))
})

test('a terminal is redrawn in place, within its width and height', () => {
  const written: string[] = []
  const screen = new MastersScreen({ isTTY: true, columns: 8, rows: 4, write: (text) => written.push(text) })
  screen.show(['one', 'twenty-two', 'three', 'four'], 'a')
  screen.show(['one'], 'a')
  screen.show(['two'], 'a')
  assert.deepEqual(written, ['\u001b[0Jone\ntwenty-…\nthree\n', '\u001b[3A\u001b[0Jone\n', '\u001b[1A\u001b[0Jtwo\n'])
})

test('a terminal of unknown size, such as a serial line, shows all lines in full', () => {
  const written: string[] = []
  const screen = new MastersScreen({ isTTY: true, columns: 0, rows: 0, write: (text) => written.push(text) })
  screen.show(['ADDRESS', '192.0.2.1'], 'a')
  assert.deepEqual(written, ['\u001b[0JADDRESS\n192.0.2.1\n'])
})

test('line by line output has nothing between the lines', () => {
  const written: string[] = []
  const screen = new MastersScreen({ write: (text) => written.push(text) }, { linewise: true })
  screen.show(['{}'], 'a')
  screen.show(['{"a":1}'], 'b')
  assert.deepEqual(written, ['{}\n', '{"a":1}\n'])
})

test('without a terminal the table is printed again only after a change, in full width', () => {
  const written: string[] = []
  const screen = new MastersScreen({ columns: 8, write: (text) => written.push(text) })
  screen.show(['a long line, 1 s'], 'a')
  screen.show(['a long line, 2 s'], 'a')
  screen.show(['another line'], 'b')
  assert.deepEqual(written, ['a long line, 1 s\n', '\nanother line\n'])
})
