import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node'
import { exposureOf, portWarningOf } from '../../src/commands/run.ts'
import { type Flags, resolveConfiguration } from '../../src/config/resolve.ts'
import { certificate, startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { freePort } from '../peers/ports.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram, whenReady } from './command-line.ts'

const embedded = ['run', '--embedded', '--health-bind-address', '127.0.0.1:0']

suite('run', { concurrency: 2 }, () => {
  test('--embedded alone creates the objects of a cluster, and ends with exit code 0 on SIGTERM', async (t) => {
    const program = await startProgram(t, [...embedded, '--on-shutdown', 'always'])
    for (const name of ['default', 'kube-node-lease', 'kube-public', 'kube-system']) {
      await program.output(new RegExp(`^\\+ Namespace ${name}: Active$`, 'm'))
    }
    await program.output(/ ServiceCIDR kubernetes: 10\.0\.0\.0\/24 Ready$/m)
    await program.output(/^\+ Service default\/kubernetes: ClusterIP 10\.0\.0\.1 443->6443$/m)
    await program.output(/^\+ Endpoints default\/kubernetes: 192\.0\.2\.1 :6443$/m)
    await program.output(/^\+ EndpointSlice default\/kubernetes: IPv4 192\.0\.2\.1 :6443$/m)

    const [, kubeconfig = ''] = await program.output(/export KUBECONFIG=(.+)$/m)
    const config = new KubeConfig()
    config.loadFromFile(kubeconfig)
    const service = await config
      .makeApiClient(CoreV1Api)
      .readNamespacedService({ namespace: 'default', name: 'kubernetes' })
    assert.equal(service.spec?.clusterIP, '10.0.0.1')

    // The first pass of the repairs is part of the start, and the screen does not show it.
    const { address } = await whenReady(program)
    assert.match(await (await fetch(`http://${address}/metrics`)).text(), /^process_resident_memory_bytes \d/m)

    program.kill('SIGTERM')
    assert.deepEqual(await program.exited, { code: 0, signal: null })
    assert.match(program.stdout(), /^~ Endpoints default\/kubernetes: no addresses$/m)
  })

  test('a dry run logs what it would do until its end, and creates nothing', async (t) => {
    const program = await startProgram(t, [...embedded, '--dry-run'])
    await program.output(/"dryRun":true/)
    await program.output(/kube-node-lease/)
    program.kill('SIGINT')
    assert.deepEqual(await program.exited, { code: 0, signal: null })
    // The API server has this namespace from its start.
    assert.deepEqual(program.stdout().match(/^\+.*/gm), ['+ Namespace default: Active'])
    assert.match(program.stderr(), /"dry run: would leave the address on the list: its API server still responds/)
  })

  test('a later second signal ends run at once with exit code 1 and removes the kubeconfig', async (t) => {
    const program = await startProgram(t, [...embedded, '--shutdown-delay-duration', '1h'])
    const [, kubeconfig = ''] = await program.output(/export KUBECONFIG=(.+)$/m)
    assert.ok(existsSync(kubeconfig))
    await program.output(/^\+ EndpointSlice/m)
    program.kill('SIGTERM')
    await program.output(/shutting down/)
    const again = setInterval(() => program.kill('SIGTERM'), 100)
    const exit = await program.exited
    clearInterval(again)
    assert.deepEqual(exit, { code: 1, signal: null })
    assert.equal(existsSync(dirname(kubeconfig)), false, 'the kubeconfig is removed')
  })

  test('an unhandled error ends run with exit code 1 and one log line', async (t) => {
    const boom = `data:text/javascript,process.once('SIGUSR2', () => void Promise.reject(new Error('boom')))`
    const program = await startProgram(t, embedded, ['--import', boom])
    await program.output(/"message":"started"/)
    program.kill('SIGUSR2')
    const { code } = await program.exited
    assert.equal(code, 1)
    const lines = program.stderr().trimEnd().split('\n')
    assert.equal(lines.filter((line) => line.includes('boom')).length, 1)
    assert.match(lines.at(-1) ?? '', /"level":"error".*"message":"unhandled error"/)
  })

  test('a health address that is not assigned to this host is reported in one line with exit code 1', async (t) => {
    const { code, stderr } = await runProgram(t, ['run', '--embedded', '--health-bind-address', '192.0.2.1:10269'])
    assert.deepEqual([code, stderr.length], [1, 1])
    assert.match(stderr[0] ?? '', /cannot listen on 192\.0\.2\.1:10269: the address is not assigned to this host/)
  })

  test('a kubeconfig with a CA but no TLS, or with an auth-provider command, is rejected in one line with exit code 2', async (t) => {
    const file = join(await tempDir(t), 'kubeconfig')
    for (const [content, words] of [
      [
        { server: 'http://127.0.0.1:1', ca: certificate('ca.crt') },
        /the certificate authority of cluster ".*" has no effect with http:\/\/127\.0\.0\.1:1; use https:\/\//,
      ],
      [
        {
          server: 'https://127.0.0.1:1',
          user: { 'auth-provider': { name: 'gcp', config: { 'cmd-path': 'sleep', 'cmd-args': '4' } } },
        },
        /use the exec plugin gke-gcloud-auth-plugin$/,
      ],
    ] as const) {
      const kubeconfig = writeKubeconfig(file, content)
      const { code, stderr } = await runProgram(t, [
        'run',
        '--kubeconfig',
        kubeconfig,
        '--advertise-address',
        '192.0.2.1',
      ])
      assert.deepEqual([code, stderr.length], [2, 1], stderr.join('\n'))
      assert.match(stderr[0] ?? '', words)
    }
  })

  test('a token is neither sent to an API server without TLS nor logged', async (t) => {
    const asked: unknown[] = []
    const server = await startServer(t, ({ headers }, response) => {
      asked.push(headers.authorization)
      const message = 'no such role: Bearer secret-of-the-cluster, secret-of-the-cluster'
      response.writeHead(403, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ kind: 'Status', reason: 'Forbidden', message }))
    })
    const content = { server: server.url.origin, token: 'secret-of-the-cluster' }
    const kubeconfig = writeKubeconfig(join(await tempDir(t), 'kubeconfig'), content)
    const health = ['--health-bind-address', '127.0.0.1:0']
    const program = await startProgram(t, [
      ...['run', '--kubeconfig', kubeconfig, '--advertise-address', '192.0.2.1', '--log-level', 'debug', ...health],
    ])
    await program.output(/the credentials of user .* are not sent to http.* without TLS/)
    await program.output(/no such role: Bearer \[redacted\], \[redacted\]/)
    program.kill('SIGTERM')
    await program.exited
    assert.ok(asked.length > 0 && asked.every((authorization) => authorization === undefined))
    assert.doesNotMatch(program.stderr(), /secret-of-the-cluster/)
    assert.equal(program.stderr().match(/are not sent to http.* without TLS/g)?.length, 1)
  })

  test('withdraw gives up after six seconds if two reconcile intervals are shorter', async (t) => {
    const kubeconfig = join(await tempDir(t), 'kubeconfig')
    writeKubeconfig(kubeconfig, { server: `http://127.0.0.1:${await freePort()}` })
    const flags = ['--advertise-address=192.0.2.1', '--lease-ttl=3s', '--reconcile-interval=1s']
    const { code, stderr } = await runProgram(t, ['withdraw', `--kubeconfig=${kubeconfig}`, ...flags])
    assert.equal(code, 1)
    assert.match(stderr.join('\n'), /not withdrawn within 6s: .*connection refused/)
  })

  test('withdraw rejects a lease store in memory', async (t) => {
    const { code, stderr } = await runProgram(t, ['withdraw', '--embedded', '--lease-store', 'memory'])
    assert.deepEqual([code, stderr.length], [2, 1])
    assert.match(stderr[0] ?? '', /^--lease-store: leases in memory are not accessible/)
  })
})

const tls = { healthTlsCertFile: 'a.crt', healthTlsPrivateKeyFile: 'a.key' }
const tokens = { ...tls, authenticationTokenWebhook: 'true' }
const withoutTls = 'without TLS (--health-tls-cert-file)'
const withoutAuthentication = 'without authentication (--authentication-token-webhook or --client-ca-file)'

const table: readonly (readonly [Flags, string | undefined])[] = [
  [{}, undefined],
  [{ healthBindAddress: '127.1.2.3:0' }, undefined],
  [{ healthBindAddress: '[::1]:0' }, undefined],
  [{ healthBindAddress: 'localhost:0' }, undefined],
  [{ healthBindAddress: '0.0.0.0:0' }, `/metrics is served to the network ${withoutTls} and ${withoutAuthentication}`],
  [{ healthBindAddress: '[::]:0', ...tls }, `/metrics is served to the network ${withoutAuthentication}`],
  [{ healthBindAddress: '192.0.2.1:0', ...tokens }, undefined],
  [{ healthBindAddress: '192.0.2.1:0', ...tls, clientCaFile: 'ca.crt' }, undefined],
  [
    { healthBindAddress: 'node-1:0', ...tokens, authorizationAlwaysAllowPaths: '/livez,/m*' },
    `/metrics is served to the network ${withoutAuthentication}`,
  ],
]

for (const [flags, warning] of table) {
  test(`${JSON.stringify(flags)}: ${warning ?? 'nothing to warn of'}`, () => {
    const { configuration } = resolveConfiguration({
      kubeconfig: 'kubeconfig',
      advertiseAddress: '192.0.2.1',
      serviceClusterIpRange: '10.96.0.0/12',
      readyzUrl: 'https://127.0.0.1:6443/readyz',
      ...flags,
    })
    assert.equal(exposureOf(configuration), warning)
  })
}

test('a health address off loopback without TLS and authentication causes one warning', async (t) => {
  const program = await startProgram(t, ['run', '--embedded', '--health-bind-address', '0.0.0.0:0'])
  await program.output(/"message":"started"/)
  assert.equal(program.stderr().match(/\/metrics is served to the network/g)?.length, 1)
})

for (const [server, flags, port] of [
  ['https://127.0.0.1:6444', {}, 6444],
  ['https://localhost', {}, 443],
  ['http://[::1]', {}, 80],
  ['https://192.0.2.1:6444', {}, 6444],
  ['https://127.0.0.1:6443', {}, undefined],
  ['https://127.0.0.1:6444', { securePort: '6443' }, undefined],
  ['https://127.0.0.1:6444', { readyzUrl: 'https://127.0.0.1:6443/readyz' }, undefined],
  ['https://192.0.2.9:6444', { readyzUrl: 'https://127.0.0.1:6445/readyz' }, 6445],
  ['https://192.0.2.9:6444', {}, undefined],
  ['https://127.0.0.1:6444', { controllers: 'endpoints' }, undefined],
] as const) {
  test(`the default port, beside ${server} with ${JSON.stringify(flags)}, causes ${port ? 'a' : 'no'} warning`, () => {
    const resolved = resolveConfiguration({ kubeconfig: '/dev/null', advertiseAddress: '192.0.2.1', ...flags })
    const warning = portWarningOf(resolved, server) ?? ''
    assert.equal(/port 6443, .* at port (\d+): .* --secure-port=\1$/.exec(warning)?.[1], port && String(port))
  })
}

test('a server at another port than the default one causes one warning', async (t) => {
  const kubeconfig = writeKubeconfig(join(await tempDir(t), 'kubeconfig'), { server: 'http://127.0.0.1:1' })
  const health = '--health-bind-address=127.0.0.1:0'
  const program = await startProgram(t, ['run', `--kubeconfig=${kubeconfig}`, '--advertise-address=192.0.2.1', health])
  await program.output(/"message":"started"/)
  assert.equal(program.stderr().match(/--secure-port=1"/g)?.length, 1)
})

test('missing certificate files are reported with flag and file', async (t) => {
  const files = ['--health-tls-cert-file', '/none/a.crt', '--health-tls-private-key-file', '/none/a.key']
  const { code, stderr } = await runProgram(t, ['run', '--embedded', '--health-bind-address', '127.0.0.1:0', ...files])
  assert.deepEqual(
    [code, stderr],
    [
      2,
      [
        '--health-tls-cert-file: /none/a.crt does not exist',
        '--health-tls-private-key-file: /none/a.key does not exist',
      ],
    ],
  )
})
