import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isKubeError } from '../../src/kube/errors.ts'
import { type ExecPluginConfig, type ExecPluginOptions, execPlugin } from '../../src/kube/kube-config-exec.ts'
import type { Grant } from '../../src/kube/kube-config-renewal.ts'
import { formatTime } from '../../src/runtime/time-format.ts'
import { memoryLogger, silentLogger } from '../../src/telemetry/logger.ts'
import { isAlive } from '../support/is-alive.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'
import { certificate } from './loopback-server.ts'

const apiVersion = 'client.authentication.k8s.io/v1'

interface Plugin {
  readonly run: () => Promise<Grant>
  readonly close: () => void
  /** How often the plugin ran. */
  runs(): number
}

/** A plugin whose command is a Node script with `body`. Each run adds a line to a file, by which `runs` counts. */
async function pluginOf(
  t: TestContext,
  body: string,
  more: Partial<ExecPluginOptions> = {},
  config: Partial<ExecPluginConfig> = {},
): Promise<Plugin> {
  const directory = await tempDir(t)
  const script = join(directory, 'plugin.cjs')
  const log = join(directory, 'log')
  await writeFile(script, `require('node:fs').appendFileSync(process.env.LOG, 'run\\n')\n${body}`)
  const stop = new AbortController()
  const plugin = execPlugin({
    config: { apiVersion, command: process.execPath, args: [script], env: [{ name: 'LOG', value: log }], ...config },
    userName: 'u',
    clusterInfo: () => ({ server: 'https://192.0.2.1' }),
    timeoutMs: 30_000,
    signal: stop.signal,
    logger: silentLogger,
    ...more,
  })
  const close = (): void => stop.abort()
  t.after(close)
  return {
    run: () => plugin(undefined),
    close,
    runs: () => (existsSync(log) ? readFileSync(log, 'utf8').split('\n').length - 1 : 0),
  }
}

const answer = (status: unknown, more: object = {}): string =>
  `console.log(JSON.stringify(${JSON.stringify({ apiVersion, kind: 'ExecCredential', status, ...more })}))`

test('a plugin returns a token and its expiry, from the timestamp or from the token itself', async (t) => {
  const endsMs = 3_600_000
  const jwt = `e30.${Buffer.from(JSON.stringify({ exp: 7_200 })).toString('base64url')}.c2ln`
  for (const [status, authorization, expiresMs] of [
    [{ token: 't', expirationTimestamp: formatTime(endsMs) }, 'Bearer t', endsMs],
    [{ token: 't' }, 'Bearer t', undefined],
    [{ token: jwt }, `Bearer ${jwt}`, 7_200_000],
    [{ token: jwt, expirationTimestamp: formatTime(endsMs) }, `Bearer ${jwt}`, endsMs],
  ] as const) {
    const { run } = await pluginOf(t, answer(status))
    assert.deepEqual(await run(), { authorization, clientCertificate: undefined, expiresMs })
  }
})

const infoIn = ({ authorization = '' }: Grant): unknown => JSON.parse(authorization.slice('Bearer '.length))

test('a plugin receives the cluster if it requests it, and may return a client certificate', async (t) => {
  const cert = certificate('client-1.crt')
  const key = certificate('client-1.key')
  const given = JSON.stringify({ clientCertificateData: cert, clientKeyData: key })
  const body = `const status = ${given}
    const info = JSON.parse(process.env.KUBERNETES_EXEC_INFO)
    status.token = JSON.stringify([info.kind, info.spec])
    console.log(JSON.stringify({ apiVersion: info.apiVersion, kind: 'ExecCredential', status }))`
  const asking = await pluginOf(t, body, {}, { provideClusterInfo: true })
  const credential = await asking.run()
  assert.deepEqual(credential.clientCertificate, { cert, key })
  const spec = { interactive: false, cluster: { server: 'https://192.0.2.1' } }
  assert.equal(credential.expiresMs, Date.parse(new X509Certificate(cert).validTo))
  assert.deepEqual(infoIn(credential), ['ExecCredential', spec])
  const { run } = await pluginOf(t, body)
  assert.deepEqual(infoIn(await run()), ['ExecCredential', { interactive: false }])
})

const failures: [body: string, words: RegExp][] = [
  ['console.error("\\nlog in first\\nmore"); process.exit(3)', /failed with exit code 3: log in first$/],
  [
    'console.error("\\u001b[31mno role for Bearer abcdefgh.ijkl, password=hunter2hunter"); process.exit(1)',
    /failed with exit code 1: \[31mno role for Bearer \[redacted\], password=\[redacted\]$/,
  ],
  ['console.error("x".repeat(1e6)); process.exit(1)', /failed with exit code 1: x{200}$/],
  ['process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 1e4)', /failed with SIGTERM$/],
  ['console.log("hunter2")', /returned output that is not JSON$/],
  ['console.log("{}")', /did not return an ExecCredential$/],
  [
    answer({ token: 'hunter2' }, { apiVersion: 'client.authentication.k8s.io/v1beta1' }),
    /returned an apiVersion other than client/,
  ],
  [answer(null), /without status$/],
  [answer({}), /returned neither a token nor a client certificate$/],
  [
    answer({ clientKeyData: 'hunter2' }),
    /returned a client certificate without a key, or a key without a certificate$/,
  ],
  [
    answer({ clientCertificateData: 'x', clientKeyData: 'hunter2' }),
    /returned a client certificate that cannot be used/,
  ],
  [answer({ token: 'hunter2\nmore' }), /returned a token that contains a character that no HTTP header may have$/],
  [
    answer({ token: 'hunter2', expirationTimestamp: 'tomorrow' }),
    /returned an expirationTimestamp that is not a time$/,
  ],
  ['process.stdout.write("x".repeat(2_000_000)); setTimeout(() => {}, 1e4)', /wrote more than 1048576 characters$/],
]
for (const [body, words] of failures) {
  test(`a failing plugin yields no credentials, but an error: ${words.source}`, async (t) => {
    const { run } = await pluginOf(t, body)
    const refused = (error: unknown): boolean => {
      assert.ok(isKubeError(error, 'NoCredentials'))
      assert.match(error.message, /^exec plugin ".*node" of user "u" /)
      assert.match(error.message, words)
      assert.doesNotMatch(error.message, /hunter2|\n/)
      return true
    }
    await assert.rejects(run(), refused)
  })
}

test('the error reports that a plugin is not installed', async (t) => {
  const { run } = await pluginOf(t, '', {}, { command: 'no-such-plugin-of-this-test' })
  await assert.rejects(run(), /^KubeError: exec plugin "no-such-plugin-of-this-test" of user "u" is not installed/)
})

test('a plugin that hangs is killed with its child processes', async (t) => {
  const directory = await tempDir(t)
  const pidFile = join(directory, 'pid')
  const body = `const child = require('node:child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 6e4)'], { stdio: 'inherit' })
    require('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(child.pid))
    setTimeout(() => {}, 6e4)`
  const { run } = await pluginOf(t, body, { timeoutMs: 8_000 })
  const waiting = run()
  await assert.rejects(waiting, /did not answer within 8000 ms$/)
  const pid = Number(readFileSync(pidFile, 'utf8'))
  await eventually('its child is gone', () => !isAlive(pid))
})

test('a plugin that does not answer within a second is logged once', async (t) => {
  const logger = memoryLogger()
  const { run } = await pluginOf(t, 'setTimeout(() => {}, 6e4)', { timeoutMs: 1_200, logger })
  for (let times = 0; times < 2; times++) await assert.rejects(run(), /did not answer within 1200 ms$/)
  const lines = logger.lines.map(({ level, message }) => `${level} ${message}`)
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', /^warn exec plugin ".*" of user "u" has not answered yet; requests .* wait for it$/)
})

test('the output of a plugin counts when it exits, even if a child process still holds its pipes open', async (t) => {
  const pidFile = join(await tempDir(t), 'pid')
  const agent = "const agent = require('node:child_process').spawn('sleep', ['60'], { stdio: 'inherit' })"
  const body = `${agent}\nrequire('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(agent.pid))\nagent.unref()`
  const { run } = await pluginOf(t, `${body}\n${answer({ token: 't' })}`)
  const endAgent = (): void => {
    const pid = Number(readFileSync(pidFile, 'utf8'))
    assert.ok(isAlive(pid))
    process.kill(pid)
  }
  assert.equal((await run()).authorization, 'Bearer t')
  endAgent()
  const failing = await pluginOf(t, `${body}\nconsole.error('no login')\nprocess.exitCode = 3`)
  await assert.rejects(failing.run(), /failed with exit code 3: no login$/)
  endAgent()
})

test('closing stops a running plugin', async (t) => {
  const { run, close, runs } = await pluginOf(t, 'setTimeout(() => {}, 6e4)')
  const waiting = assert.rejects(run(), /^KubeError: exec plugin .* was stopped: the connection is closed$/)
  await eventually('it runs', () => runs() === 1)
  close()
  await waiting
})

test('a plugin receives a variable without a value as an empty one, as with kubectl', async (t) => {
  const script = `echo '{"apiVersion":"${apiVersion}","kind":"ExecCredential","status":{"token":"'"[\${A-unset}\${B-unset}]"'"}}'`
  const config = { command: 'sh', args: ['-c', script], env: [{ name: 'A', value: null }, { name: 'B' }] }
  const { run } = await pluginOf(t, '', {}, config)
  assert.equal((await run()).authorization, 'Bearer []')
})

test('a process that may open no more files reports that the plugin cannot be run, and continues', () => {
  const source = (file: string): string => JSON.stringify(import.meta.resolve(`../../src/${file}`))
  const program = `
    import { closeSync, openSync } from 'node:fs'
    import { execPlugin } from ${source('kube/kube-config-exec.ts')}
    import { silentLogger } from ${source('telemetry/logger.ts')}
    const config = { apiVersion: '${apiVersion}', command: 'true' }
    const { signal } = new AbortController()
    const plugin = execPlugin({ config, userName: 'u', clusterInfo: () => ({}), timeoutMs: 30_000, signal, logger: silentLogger })
    const files = []
    try {
      for (;;) files.push(openSync('/dev/null'))
    } catch {}
    const { message } = await plugin(undefined).catch((error) => error)
    for (const file of files) closeSync(file)
    console.log(message)`
  const limited = ['-c', 'ulimit -n 64 && exec "$0" --input-type=module --eval "$1"', process.execPath, program]
  const output = execFileSync('sh', limited, { encoding: 'utf8', timeout: 20_000 })
  assert.equal(output, 'exec plugin "true" of user "u" cannot be run (EMFILE)\n')
})
