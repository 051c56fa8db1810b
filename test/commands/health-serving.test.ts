import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exposureOf } from '../../src/commands/health-serving.ts'
import { type Flags, resolveConfiguration } from '../../src/config/resolve.ts'
import { runProgram, startProgram } from './command-line.ts'

const tls = { healthTlsCertFile: 'a.crt', healthTlsPrivateKeyFile: 'a.key' }
const tokens = { ...tls, authenticationTokenWebhook: 'true' }
const withoutTls = 'without TLS (--health-tls-cert-file)'
const withoutAuthentication = 'without authentication (--authentication-token-webhook or --client-ca-file)'

const table: readonly (readonly [Flags, string | undefined])[] = [
  [{}, undefined],
  [{ healthBindAddress: '127.1.2.3:0' }, undefined],
  [{ healthBindAddress: '[::1]:0' }, undefined],
  [{ healthBindAddress: 'localhost:0' }, undefined],
  [{ healthBindAddress: '0.0.0.0:0' }, `the network is served /metrics ${withoutTls} and ${withoutAuthentication}`],
  [{ healthBindAddress: '[::]:0', ...tls }, `the network is served /metrics ${withoutAuthentication}`],
  [{ healthBindAddress: '192.0.2.1:0', ...tokens }, undefined],
  [{ healthBindAddress: '192.0.2.1:0', ...tls, clientCaFile: 'ca.crt' }, undefined],
  [
    { healthBindAddress: 'node-1:0', ...tokens, authorizationAlwaysAllowPaths: '/livez,/m*' },
    `the network is served /metrics ${withoutAuthentication}`,
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

test('off loopback a start without TLS and authentication warns once', async (t) => {
  const program = await startProgram(t, ['run', '--embedded', '--health-bind-address', '0.0.0.0:0'])
  await program.output(/"message":"started"/)
  assert.equal(program.stderr().match(/the network is served \/metrics/g)?.length, 1)
})

test('a certificate that is not there is a mistake that names the flag and the file', async (t) => {
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
