import assert from 'node:assert/strict'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { execute } from '../../src/commands/drill.ts'
import { prepareReportDirectory } from '../../src/commands/drill-output.ts'
import { readDrillRequest, variantsOf } from '../../src/commands/drill-request.ts'
import { parseScenario } from '../../src/drill/scenario/parse.ts'
import { tempDir } from '../support/temp-dir.ts'

test('the command that repeats a drill contains all relevant flags, quoted for a shell', () => {
  const lines: readonly (readonly [scenario: string, flags: Readonly<Record<string, string>>, line: string])[] = [
    ['crash', {}, 'crash --seed 1'],
    ['crash', { output: 'json', report: 'out' }, 'crash --seed 1'],
    ['./my drill.yaml', { runs: '3', seed: '9' }, "'./my drill.yaml' --seed 9 --runs 3"],
    ["it's.yaml", { leaseStore: 'etcd,memory' }, "'it'\\''s.yaml' --seed 1 --lease-store etcd,memory"],
    [
      'crash',
      { target: 'live', yes: 'true', kubeconfig: '~/x', etcdServers: 'http://192.0.2.1:2379' },
      "crash --seed 1 --target live --yes --kubeconfig '~/x' --etcd-servers http://192.0.2.1:2379",
    ],
  ]
  for (const [scenario, flags, line] of lines) {
    assert.equal(readDrillRequest(flags, scenario).command, `apiserver-bootstrap drill ${line}`)
  }
})

test('random with more than one run is a campaign', () => {
  const typeOf = (scenario: string, flags = {}): string => readDrillRequest(flags, scenario).type
  assert.deepEqual(
    [typeOf('random'), typeOf('random', { runs: '2' }), typeOf('crash', { runs: '2' }), typeOf('list')],
    ['drill', 'campaign', 'drill', 'list'],
  )
})

function scenarioOf(fleet: string): ReturnType<typeof parseScenario> {
  const head = 'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Drill\nname: mine\ndescription: Something.\n'
  return parseScenario(`${head}fleet: ${fleet}\nsteps: []\n`, 'mine.yaml')
}

const sideBySide: readonly (readonly [fleet: string, flags: object, names: readonly string[]])[] = [
  ['{masters: 3}', {}, ['lease (etcd)']],
  ['{masters: 3, reconciler: master-count}', {}, ['master-count']],
  ['{masters: 3, leaseStore: memory}', { reconciler: ['none', 'lease', 'none'] }, ['none', 'lease (memory)']],
  ['{masters: 3}', { leaseStore: ['kine', 'memory', 'kine'] }, ['lease (kine)', 'lease (memory)']],
  [
    '{masters: 3, leaseStore: kubernetes}',
    { reconciler: ['lease', 'master-count', 'kube-apiserver'], leaseStore: ['etcd', 'kubernetes'] },
    ['lease (etcd)', 'lease (kubernetes)', 'master-count', 'kube-apiserver'],
  ],
  ['{masters: [{kind: kube-apiserver}]}', {}, ['kube-apiserver']],
  [
    '{masters: [{kind: kube-apiserver}, {}]}',
    { reconciler: ['lease', 'kube-apiserver'] },
    ['lease (etcd)', 'kube-apiserver'],
  ],
]
for (const [fleet, flags, names] of sideBySide) {
  test(`${fleet} with ${JSON.stringify(flags)} gives the variants ${names.join(', ')}`, () => {
    const varied = variantsOf(scenarioOf(fleet), { reconciler: undefined, leaseStore: undefined, ...flags })
    assert.deepEqual(
      varied.map(({ variant }) => variant.name),
      names,
    )
    for (const { scenario } of varied) {
      const upstream = scenario.fleet.masters.some(({ kind }) => kind === 'kube-apiserver')
      assert.ok(!upstream || ['etcd', 'kine'].includes(scenario.fleet.leaseStore))
    }
  })
}

const etcd = { etcdServers: 'http://192.0.2.1:2379' }
const live = { target: 'live', yes: 'true', kubeconfig: 'x' }
const refused: readonly (readonly [scenario: string, flags: Readonly<Record<string, string>>, ...lines: string[]])[] = [
  [
    'crash',
    { reconciler: 'lease,leases' },
    '--reconciler: must be one of lease, master-count, none, kube-apiserver, not "leases"',
  ],
  ['crash', { leaseStore: 'etcd', reconciler: 'none' }, '--lease-store: requires the reconciler lease'],
  [
    'mixed-fleet',
    { leaseStore: 'kubernetes' },
    '--lease-store: must be etcd or kine, not kubernetes: master-4 is a kube-apiserver, which keeps its lease there',
  ],
  ...(
    [
      ['unauthorized', 'requests-fail'],
      ['upgrade', 'roll-config'],
    ] as const
  ).map(
    ([scenario, action]) =>
      [
        scenario,
        { reconciler: 'lease,kube-apiserver' },
        `--reconciler: all masters are kube-apiservers, which have no sidecar: ${action} would have no effect`,
      ] as const,
  ),
  [
    'crash',
    { yes: 'true', kubeconfig: 'x', ...etcd },
    '--yes: requires --target=live',
    '--kubeconfig: requires --target=live',
    '--etcd-servers: requires --target=live',
  ],
  [
    'crash',
    { target: 'live', jobs: '2' },
    '--jobs: requires random and --runs over 1',
    '--yes: is required with --target=live, which changes default/kubernetes and restores it at the end',
    '--kubeconfig: is required with --target=live; there is no default API server',
  ],
  [
    'clock-skew',
    { ...live, ...etcd },
    ...[2, 3, 4, 5].map((number) => `lease (etcd): master-${number}: the clock of a real process cannot be set`),
    'lease (etcd): steps: clock-skew is not supported with real processes',
  ],
  ['crash', live, '--etcd-servers: is required for lease (etcd)'],
  [
    'crash',
    { ...live, reconciler: 'kube-apiserver' },
    '--kube-apiserver: is required for master-1, a kube-apiserver',
    '--etcd-servers: is required for kube-apiserver',
  ],
  ['mixed-fleet', { ...live, ...etcd }, '--kube-apiserver: is required for master-4, a kube-apiserver'],
  ...(
    [
      ['/nope', 'no such file'],
      ['/', 'it is a directory'],
      [import.meta.filename, 'permission denied'],
    ] as const
  ).map(
    ([file, fault]) =>
      ['crash', { ...live, ...etcd, kubeApiserver: file }, `--kube-apiserver: cannot run ${file}: ${fault}`] as const,
  ),
  [
    'crash',
    { ...live, ...etcd, etcdCertfile: 'x' },
    '--etcd-certfile: needs --etcd-keyfile',
    '--etcd-certfile: requires an https endpoint',
  ],
  [
    'random',
    { runs: '2', output: 'junit', reconciler: 'none' },
    '--reconciler: cannot be used with random and --runs over 1: each seed decides it',
    '--output: must be text or json with random and --runs over 1',
  ],
  [
    'random',
    { target: 'live' },
    '--target: random schedules require sim: real processes do not support many of their steps',
  ],
  ['list', { seed: '2' }, '--seed: cannot be used with list'],
]
for (const [scenario, flags, ...lines] of refused) {
  test(`${scenario} with ${JSON.stringify(flags)} is rejected`, async () => {
    await assert.rejects(execute(flags, scenario), { code: 'InvalidInput', message: lines.join('\n') })
  })
}

test('a report directory is created if missing, and rejected if not writable', { timeout: 30_000 }, async (t) => {
  const directory = await tempDir(t)
  const made = join(directory, 'a', 'b')
  await prepareReportDirectory(made)
  const empty = join(directory, 'a', 'c')
  await prepareReportDirectory(`${made}/../c/`)
  const file = join(made, 'notes.txt')
  await writeFile(file, '')
  await prepareReportDirectory(made)
  const refused = (name: string, fault: string): Promise<void> =>
    assert.rejects(prepareReportDirectory(name), { code: 'InvalidInput', message: `--report: ${name} ${fault}` })
  await refused(file, 'is not a directory')
  await refused(join(file, 'd'), 'is not a directory')
  // The directory exists, but the error states that it does not.
  if (process.platform === 'linux') await refused('/proc/x', 'cannot be made or written (ENOENT)')
  // root can write there too.
  if (process.getuid?.() === 0) return
  await chmod(empty, 0o500)
  await refused(empty, 'cannot be made or written (EACCES)')
})
