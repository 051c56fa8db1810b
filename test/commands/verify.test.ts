import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { defaultNamespace, startApiServer } from '../../src/apiserver/http-start.ts'
import { renderGithub, renderJson, renderJunit, renderTable } from '../../src/commands/verify-output.ts'
import { checkIds, checkTexts } from '../../src/verify/cluster/check-ids.ts'
import { reportSchema } from '../../src/verify/cluster/report-schema.ts'
import type { CheckResult, VerifyReport } from '../../src/verify/cluster/verify-cluster.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { freePort } from '../peers/ports.ts'
import { untilPasses } from '../peers/until.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram } from './command-line.ts'

const flags = { kubectl: ['--kubeconfig=k'], 'apiserver-bootstrap': ['--kubeconfig=k'] }

function finding(object: string): object {
  const remedy = [{ tool: 'kubectl', args: ['create', 'namespaces', 'kube-public'] }]
  return { object, expected: 'exists', found: 'missing', remedy }
}

function report(...results: readonly object[]): VerifyReport {
  const { title, why } = checkTexts['system-namespaces']
  const full = results.map((result) => ({ title, why, ...result }) as unknown as CheckResult)
  return { results: full, holds: full.every(({ status }) => status !== 'failed') }
}

test('the table has a line per check, then the findings and the commands that repair them', () => {
  const text = renderTable(
    report(
      { id: 'system-namespaces', status: 'failed', findings: [finding('Namespace kube-public')] },
      { id: 'kubernetes-service', status: 'held', found: 'ClusterIP 10.96.0.1' },
      { id: 'kubernetes-endpoints', status: 'skipped', reason: 'list endpoints: forbidden' },
    ),
    flags,
  )
  assert.equal(
    text,
    `system-namespaces     failed   Namespace kube-public: missing
kubernetes-service    held     ClusterIP 10.96.0.1
kubernetes-endpoints  skipped  list endpoints: forbidden

system-namespaces: ${checkTexts['system-namespaces'].why}
  Namespace kube-public
    expected  exists
    found     missing
    repair    kubectl create namespaces kube-public --kubeconfig=k

1 held, 1 failed, 1 skipped
`,
  )
})

test('a long list of findings is cut, and a command shared by several findings is shown once', () => {
  const findings = Array.from({ length: 12 }, (_, index) => finding(`Namespace ${index}`))
  const lines = renderTable(report({ id: 'system-namespaces', status: 'failed', findings }), flags).split('\n')
  assert.match(lines[0] ?? '', /Namespace 0: missing, and 11 more$/)
  assert.equal(lines.filter((line) => line.includes('kubectl create')).length, 1)
  assert.equal(lines.filter((line) => line.includes('the same command')).length, 9)
  assert.ok(lines.includes('  and 2 more'))
})

test('names from a cluster are escaped for the terminal', () => {
  const text = renderTable(report({ id: 'system-namespaces', status: 'held', found: '\u001b[2J\nheld' }), flags)
  assert.match(text, /\\u001b\[2J\\u000aheld/)
})

test('an unreachable cluster gives exit code 3 and one line', async (t) => {
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  writeKubeconfig(kubeconfig, { server: `http://127.0.0.1:${await freePort()}` })
  const { code, stdout, stderr } = await runProgram(t, ['verify', `--kubeconfig=${kubeconfig}`])
  assert.equal(code, 3, stderr.join('\n'))
  assert.equal(stdout, '')
  assert.match(stderr.join('\n'), /^apiserver-bootstrap: list \w+.*: connection refused.*$/)
})

test('a wrong flag or expectation file gives exit code 2', async (t) => {
  const wrong = join(await tempDir(t), 'kubeconfig')
  writeFileSync(wrong, 'clusters: 7')
  const sound = writeKubeconfig(`${wrong}.sound`, { server: 'http://127.0.0.1:1' })
  const expected = `${wrong}.yaml`
  const head = 'apiVersion: apiserver-bootstrap/v1alpha1\nkind: VerifyExpectations\n'
  writeFileSync(expected, `${head}expectMasters: many\nexpectAdresses: [192.0.2.1]\nskip: [nonsense]\n`)
  const skipping = `${wrong}.skip.yaml`
  writeFileSync(skipping, `${head}skip: [master-leases]\n`)
  for (const [args, pattern] of [
    [['--only=nodeports'], /^--only: must be one of .*, not "nodeports"; did you mean node-ports\?$/],
    [['--only=nonsense'], /^--only: must be one of system-namespaces, .*, duplicate-slices, not "nonsense"$/],
    [['--expect-masters=0'], /--expect-masters/],
    [['--expect-addresses=nowhere'], /--expect-addresses/],
    [[`--kubeconfig=${wrong}`], /--kubeconfig/],
    [['--advertise-address=192.0.2.1'], /unknown option/],
    [['--probe', '--probe-map=192.0.2.1'], /^--probe-map: "192\.0\.2\.1" is not ADDRESS=HOST:PORT/],
    [['--probe', '--probe-map=192.0.2.1=here'], /^--probe-map: "here" is not HOST:PORT/],
    [
      ['--only=node-ports', '--skip=node-ports', '--watch-writers=60s', `--kubeconfig=${sound}`],
      /^--skip: excludes every check of --only: no check is left to run/,
    ],
    [[`--skip=${checkIds.join()}`, `--kubeconfig=${sound}`], /^--skip: excludes all checks: no check is left to run$/],
    [
      ['--only=master-leases', `--expect=${skipping}`, `--kubeconfig=${sound}`],
      /^skip in the file of --expect: excludes every check of --only: no check is left to run/,
    ],
    [['--watch-writers=10ms'], /^--watch-writers: must be at least 1s/],
    [['--expect=/nowhere'], /^--expect: cannot read \/nowhere: no such file$/],
    [[`--expect=${expected}`], /:3:16: expectMasters: must be a whole number/],
    [[`--expect=${expected}`], /:4:1: unknown setting "expectAdresses"; did you mean expectAddresses\?/],
    [[`--expect=${expected}`], /:5:8: skip: must be one of system-namespaces, /],
  ] as const) {
    const { code, stderr } = await runProgram(t, ['verify', ...args])
    assert.equal(code, 2, stderr.join('\n'))
    assert.match(stderr.join('\n'), pattern)
  }
})

test('ranges from the --config file are expected, unless a flag or the --expect file gives others', async (t) => {
  const service = (name: string, spec: object) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'default', name, labels: { component: 'apiserver', provider: 'kubernetes' } },
    spec,
  })
  const kubernetes = { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, targetPort: 6443 }] }
  const exposed = { type: 'NodePort', clusterIP: '10.96.0.2', ports: [{ port: 80, nodePort: 30080 }] }
  const server = await startApiServer({
    serviceAllocators: 'none',
    objects: [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
      service('kubernetes', kubernetes),
      service('web', exposed),
    ],
  })
  t.after(() => server.close())
  const directory = await tempDir(t)
  const kubeconfig = join(directory, 'kubeconfig')
  await server.writeKubeconfig(kubeconfig)
  const put = (name: string, kind: string, values: object): string => {
    const file = join(directory, name)
    // JSON is YAML.
    writeFileSync(file, JSON.stringify({ apiVersion: 'apiserver-bootstrap/v1alpha1', kind, ...values }))
    return file
  }
  const ranges = { serviceClusterIpRange: '10.80.0.0/16', serviceNodePortRange: '30000-30010' }
  const config = put('config', 'Configuration', { kubeconfig, ...ranges })
  const expected = put('expected', 'VerifyExpectations', { serviceNodePortRange: '30000-30100' })
  const failed = async (...args: readonly string[]) => {
    const only = '--only=kubernetes-service,node-ports'
    const { code, stdout, stderr } = await runProgram(t, ['verify', only, '--output=json', ...args])
    const { checks } = reportSchema.parse(JSON.parse(stdout || assert.fail(stderr.join('\n'))))
    return [code, ...checks.flatMap(({ id, status }) => (status === 'failed' ? [id] : []))]
  }
  assert.deepEqual(await failed(`--config=${config}`), [1, 'kubernetes-service', 'node-ports'])
  assert.deepEqual(await failed(`--config=${config}`, `--expect=${expected}`), [1, 'kubernetes-service'])
  const flags = ['--service-cluster-ip-range=10.96.0.0/16', '--service-node-port-range=30000-32767']
  assert.deepEqual(await failed(`--config=${config}`, ...flags), [0])
  // The defaults of `run` state nothing about a cluster.
  assert.deepEqual(await failed(`--config=${put('bare', 'Configuration', { kubeconfig })}`), [0])
})

test('repair commands have the connection flags of the checked cluster, even if it is not the current context', async (t) => {
  const metadata = { namespace: 'default', name: 'kubernetes' }
  const addresses = [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }]
  const server = await startApiServer({
    objects: [defaultNamespace, { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets: [{ addresses }] }],
  })
  t.after(() => server.close())
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  writeFileSync(kubeconfig, server.kubeconfig.replace(/^current-context: .*$/m, 'current-context: elsewhere'))
  const connection = [`--kubeconfig=${kubeconfig}`, '--context=apiserver-bootstrap']
  const checked = ['--only=system-namespaces,expected-masters', '--expect-addresses=192.0.2.1']
  const { code, stdout, stderr } = await runProgram(t, ['verify', '--output=json', ...checked, ...connection])
  assert.equal(code, 1, stderr.join('\n'))
  const { checks } = reportSchema.parse(JSON.parse(stdout))
  const findings = checks.flatMap((check) => (check.status === 'failed' ? check.findings : []))
  const namespaces = ['kube-system', 'kube-public', 'kube-node-lease']
  assert.deepEqual(
    findings.map(({ repair }) => repair),
    [
      ...namespaces.map((name) => ['kubectl create namespace', name, ...connection].join(' ')),
      ['apiserver-bootstrap masters evict 192.0.2.2 --yes', ...connection].join(' '),
    ],
  )
})

test('if $KUBECONFIG names the cluster, commands of this program have it as a flag, because run does not read it', async (t) => {
  const metadata = { namespace: 'default', name: 'kubernetes' }
  const subsets = [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }] }]
  const server = await startApiServer({
    objects: [defaultNamespace, { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets }],
  })
  t.after(() => server.close())
  const directory = await tempDir(t)
  const kubeconfig = join(directory, 'kubeconfig')
  writeFileSync(kubeconfig, server.kubeconfig)
  writeFileSync(join(directory, 'env'), `KUBECONFIG=${kubeconfig}:${directory}/other\n`)
  const checked = ['--only=expected-masters', '--expect-addresses=192.0.2.1']
  const evict = `apiserver-bootstrap masters evict 192.0.2.2 --yes --kubeconfig=${kubeconfig}`
  for (const more of [[], ['--in-cluster=false']]) {
    const args = ['verify', '--output=json', ...checked, ...more]
    const { stdout } = await runProgram(t, args, [`--env-file=${join(directory, 'env')}`])
    const { checks } = reportSchema.parse(JSON.parse(stdout))
    const findings = checks.flatMap((check) => (check.status === 'failed' ? check.findings : []))
    assert.deepEqual(
      findings.map(({ repair }) => repair),
      [evict],
    )
  }
})

const every = report(
  { id: 'system-namespaces', status: 'failed', findings: [finding('Namespace <b>,100%')] },
  { id: 'kubernetes-service', status: 'held', found: 'ClusterIP 10.96.0.1' },
  { id: 'kubernetes-endpoints', status: 'skipped', reason: 'list endpoints: "forbidden"\nhere' },
)

test('--probe-map requires --probe, and each address only once', async (t) => {
  const kubeconfig = writeKubeconfig(join(await tempDir(t), 'kubeconfig'), { server: 'http://127.0.0.1:1' })
  const map = '--probe-map=192.0.2.1=127.0.0.1:6443'
  for (const [args, line] of [
    [[map], '--probe-map: needs --probe'],
    [['--probe', map, map], '--probe-map: names an address twice'],
  ] as const) {
    const { code, stderr } = await runProgram(t, ['verify', `--kubeconfig=${kubeconfig}`, ...args])
    assert.deepEqual([code, stderr], [2, [line]])
  }
})

test('an interrupted wait for an unreachable cluster gives exit code 3', async (t) => {
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  writeKubeconfig(kubeconfig, { server: `http://127.0.0.1:${await freePort()}` })
  const child = await startProgram(t, ['verify', `--kubeconfig=${kubeconfig}`, '--wait=60s'])
  await untilPasses('a line of progress', () => assert.match(child.stderr(), /waiting for/), { withinMs: 20_000 })
  child.kill('SIGTERM')
  assert.equal((await child.exited).code, 3, child.stderr())
  assert.match(child.stderr(), /\napiserver-bootstrap: list .*connection refused/)
})

test('the JSON output matches the published schema', () => {
  const document = reportSchema.parse(JSON.parse(renderJson(every, flags)))
  assert.deepEqual([document.holds, document.held, document.failed, document.skipped], [false, 1, 1, 1])
  const [failed] = document.checks
  assert.ok(failed?.status === 'failed')
  assert.equal(failed.findings[0]?.repair, 'kubectl create namespaces kube-public --kubeconfig=k')
})

test('the JUnit output has a test case for each check', () => {
  assert.equal(
    renderJunit(every, flags),
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="verify" tests="3" failures="1" errors="0" time="0.000">
  <testsuite name="verify" tests="3" failures="1" errors="0" skipped="1" time="0.000">
    <testcase name="system-namespaces" classname="verify" time="0.000">
      <failure message="The system namespaces exist." type="system-namespaces">Namespace &lt;b&gt;,100%: expected exists, found missing
kubectl create namespaces kube-public --kubeconfig=k</failure>
    </testcase>
    <testcase name="kubernetes-service" classname="verify" time="0.000"/>
    <testcase name="kubernetes-endpoints" classname="verify" time="0.000">
      <skipped message="list endpoints: &quot;forbidden&quot;&#10;here"/>
    </testcase>
  </testsuite>
</testsuites>
`,
  )
})

test('the GitHub output has a one-line annotation for each finding', () => {
  assert.deepEqual(renderGithub(every, flags).split('\n'), [
    `::error title=system-namespaces failed::Namespace <b>,100%25: expected exists, found missing%0Akubectl create namespaces kube-public --kubeconfig=k%0A${checkTexts['system-namespaces'].why}`,
    '::notice title=kubernetes-endpoints skipped::list endpoints: "forbidden"%0Ahere',
    '1 held, 1 failed, 1 skipped',
    '',
  ])
})

test('--wait reports what it waits for, then ends with exit code 3 and the last error', async (t) => {
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  writeKubeconfig(kubeconfig, { server: `http://127.0.0.1:${await freePort()}` })
  const { code, stderr } = await runProgram(t, ['verify', `--kubeconfig=${kubeconfig}`, '--wait=5s'])
  assert.equal(code, 3)
  assert.match(
    stderr.join('\n'),
    /^waiting for list .*connection refused.*\n(?:waiting for .*\n)*apiserver-bootstrap: list /,
  )
})

test('--wait tries again until the cluster answers and the checks hold', async (t) => {
  const names = ['default', 'kube-system', 'kube-public', 'kube-node-lease']
  const server = await startApiServer({ objects: names.map((name) => ({ ...defaultNamespace, metadata: { name } })) })
  t.after(() => server.close())
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  await server.writeKubeconfig(kubeconfig)
  server.faults.add({ fault: { type: 'refuse' } })
  const args = ['verify', `--kubeconfig=${kubeconfig}`, '--only=system-namespaces', '--wait=60s']
  const child = await startProgram(t, args)
  await child.output(/^waiting for list /m)
  server.faults.clear()
  assert.equal((await child.exited).code, 0, child.stderr())
  assert.match(child.stdout(), /^system-namespaces +held/m)
})
