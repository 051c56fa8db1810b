import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { KubeConfig } from '@kubernetes/client-node'
import { tempDir } from '../support/temp-dir.ts'
import { withTimeout } from '../support/with-timeout.ts'
import { certificate, certificateFile, serverTls, startServer } from './loopback-server.ts'

// How client-node 2.0.1 reads a kubeconfig, and why src/kube/kube-config*.ts has code of its own. When an update makes
// one of these tests fail, the library may have closed the gap, and its code can replace our code.

const server = 'https://192.0.2.1:6443'

/** A kubeconfig of one context. `user` and `cluster` are YAML flow mappings without braces. */
function kubeconfig(user: string, cluster = `server: "${server}"`): string {
  return `current-context: dev
clusters: [{ name: c, cluster: { ${cluster} } }]
users: [{ name: u, user: { ${user} } }]
contexts: [{ name: dev, context: { cluster: c, user: u } }]`
}

function loaded(text: string): KubeConfig {
  const config = new KubeConfig()
  config.loadFromString(text)
  return config
}

/** The options with which it would send a request. */
async function sent(config: KubeConfig): Promise<RequestOptions & { readonly headers?: Record<string, string> }> {
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options)
  return options as never
}

const exec = (command: string, args: readonly string[] = []): string =>
  `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "${command}", args: ${JSON.stringify(args)} }`
/** An exec plugin that runs this shell script. */
const shell = (script: string): string => exec('sh', ['-c', script])

test('reading a file: fields of a user and of a cluster are lost', async (t) => {
  const file = join(await tempDir(t), 'config')
  const user = `tokenFile: token, as: alice, as-uid: "7", as-groups: [a], as-user-extra: { reason: [x] }, ${exec('./plugin')}`
  const extension = 'extensions: [{ name: client.authentication.k8s.io/exec, extension: { audience: a } }]'
  await writeFile(file, kubeconfig(user, `server: "${server}", ${extension}`))
  const config = new KubeConfig()
  config.loadFromFile(file)
  assert.doesNotMatch(
    JSON.stringify([config.getCurrentUser(), config.getCurrentCluster()]),
    /"token"|7|reason|audience/,
  )
  assert.deepEqual((await sent(loaded(kubeconfig('token: t, as: alice, as-groups: [a]')))).headers, {
    'Impersonate-User': 'alice',
    Authorization: 'Bearer t',
  })
  // A command with a slash is relative to the file.
  assert.equal(config.getCurrentUser()?.exec.command, './plugin')
})

test('reading a file: a mistake in an unused entry makes the file invalid, or removes that entry', () => {
  const text = kubeconfig('token: t').replace('clusters: [', 'clusters: [{ name: other }, ')
  assert.throws(() => loaded(text), /^Error: clusters\[0\].cluster is missing$/)
  const filtering = new KubeConfig()
  filtering.loadFromString(text, { onInvalidEntry: 'filter' })
  assert.equal(filtering.getCluster('other'), null)
})

test('reading a file: the error for a mistake quotes the text, and other mistakes are accepted', () => {
  assert.throws(() => loaded('token: hunter2: b'), /hunter2/)
  assert.equal(loaded(kubeconfig('token: 1234')).getCurrentUser()?.token, 1234)
  assert.equal(loaded('kind: Pod').getCurrentCluster(), null)
  assert.equal(loaded(kubeconfig('token: t').replace('dev', 'prod')).getCurrentUser(), null)
})

test('merging: a file that names an entry of another file is refused, and so is a missing file', (t) => {
  const both = loaded(kubeconfig('token: t'))
  assert.throws(() => both.mergeConfig(loaded(kubeconfig('token: other'))), /^Error: Duplicate cluster: c$/)
  setEnvironment(t, { KUBECONFIG: `/missing:${certificateFile('ca.crt')}` })
  assert.throws(() => new KubeConfig().loadFromDefault(), /ENOENT/)
})

test('TLS: without a user the authority is ignored, and certificate verification is left to the environment', async () => {
  const cluster = `server: "${server}", certificate-authority: "${certificateFile('ca.crt')}"`
  const anonymous = loaded(kubeconfig('', cluster).replace(', user: u }', ' }'))
  assert.equal((await sent(anonymous)).ca, undefined)
  assert.equal((await sent(loaded(kubeconfig('token: t', cluster)))).rejectUnauthorized, undefined)
})

test('TLS: a client certificate is accepted with the key of another one', async () => {
  const files = `client-certificate: "${certificateFile('client-1.crt')}", client-key: "${certificateFile('client-2.key')}"`
  const { cert, key } = await sent(loaded(kubeconfig(files)))
  assert.deepEqual([cert, key].map(String), [certificate('client-1.crt'), certificate('client-2.key')])
})

test('a server without TLS receives the credentials with insecure-skip-tls-verify, and cannot be used otherwise', async () => {
  const plain = 'server: "http://192.0.2.1"'
  await assert.rejects(sent(loaded(kubeconfig('token: t', plain))), /HTTP protocol is not allowed/)
  const { headers } = await sent(loaded(kubeconfig('token: t', `${plain}, insecure-skip-tls-verify: true`)))
  assert.equal(headers?.Authorization, 'Bearer t')
})

test('connections: each request has its own dispatcher, and the proxy of the environment is not used', async (t) => {
  setEnvironment(t, { HTTPS_PROXY: 'http://proxy:3128' })
  const config = loaded(kubeconfig('token: t', `server: "${server}", tls-server-name: cluster.test`))
  const dispatchers = new Set<unknown>()
  for (let request = 0; request < 3; request++) {
    await config.applySecurityAuthentication({
      setHeaderParam() {},
      setDispatcher: (dispatcher: unknown) => dispatchers.add(dispatcher),
    } as never)
  }
  assert.equal(dispatchers.size, 3)
  assert.equal(config.createDispatcherOptions(config.getCurrentCluster(), {}).type, 'none')
})

test('in a Pod: the environment variables are not checked, and TLS depends on the port', async (t) => {
  const root = await tempDir(t)
  setEnvironment(t, { KUBERNETES_SERVICE_HOST: undefined, KUBERNETES_SERVICE_PORT: undefined })
  const config = new KubeConfig()
  config.loadFromCluster(root)
  assert.equal(config.getCurrentCluster()?.server, 'https://undefined:undefined')
  setEnvironment(t, { KUBERNETES_SERVICE_HOST: '192.0.2.1', KUBERNETES_SERVICE_PORT: '8080' })
  config.loadFromCluster(root)
  assert.equal(config.getCurrentCluster()?.server, 'http://192.0.2.1:8080')
})

test('token files: the token keeps its line end, and a newer token is not read at once', async (t) => {
  const tokenFile = join(await tempDir(t), 'token')
  await writeFile(tokenFile, 'one\n')
  const config = loaded(kubeconfig(`auth-provider: { name: tokenFile, config: { tokenFile: "${tokenFile}" } }`))
  assert.equal((await sent(config)).headers?.Authorization, 'Bearer one\n')
  await writeFile(tokenFile, 'two\n')
  assert.equal((await sent(config)).headers?.Authorization, 'Bearer one\n')
})

test('exec plugins: no check of kind or apiVersion, no time limit, and one process for each waiting request', async (t) => {
  const log = join(await tempDir(t), 'log')
  // It checks neither kind nor apiVersion, and does not set KUBERNETES_EXEC_INFO.
  const config = loaded(kubeconfig(shell(`echo run >>${log}; echo '{"status":{"token":"<'$KUBERNETES_EXEC_INFO'>"}}'`)))
  const [first] = await Promise.all([sent(config), sent(config), sent(config)])
  assert.equal(first.headers?.Authorization, 'Bearer <>')
  assert.equal(await readFile(log, 'utf8'), 'run\nrun\nrun\n')

  const hanging = sent(loaded(kubeconfig(shell('exec sleep 2')))).catch(() => {})
  await assert.rejects(withTimeout(hanging, 1_000, 'the plugin'))
  await hanging
})

test('exec plugins: a token is renewed only after it has expired, while the request waits', async (t) => {
  const log = join(await tempDir(t), 'log')
  const endsMs = Date.now() + 600_000
  const credential = `'{"status":{"expirationTimestamp":"${new Date(endsMs).toISOString()}","token":"'$(wc -l <${log})'"}}'`
  const config = loaded(kubeconfig(shell(`echo run >>${log}; echo ${credential}`)))
  const tokenAt = async (nowMs: number): Promise<string | undefined> => {
    const now = t.mock.method(Date, 'now', () => nowMs)
    const { headers } = await sent(config)
    now.mock.restore()
    return headers?.Authorization
  }
  assert.equal(await tokenAt(endsMs - 600_000), 'Bearer 1')
  assert.equal(await tokenAt(endsMs - 1), 'Bearer 1', 'nothing is renewed in advance')
  assert.equal(await tokenAt(endsMs), 'Bearer 2')
})

test('exec plugins: a failure quotes the whole standard error', async () => {
  const failing = loaded(kubeconfig(shell('echo "password=hunter2" >&2; exit 1')))
  await assert.rejects(sent(failing), /hunter2/)
})

test('auth-provider gcp: its command blocks the process', async () => {
  const config = loaded(
    kubeconfig('auth-provider: { name: gcp, config: { cmd-path: sh, cmd-args: "-c \'sleep 0.3; exit 1\'" } }'),
  )
  const startMs = performance.now()
  const failed = sent(config).catch(() => {})
  assert.ok(performance.now() - startMs > 250)
  await failed
})

test('auth-provider oidc: an expired token is not renewed, and the issuer receives no request', async (t) => {
  const issuer = await startServer(t, (_, response) => response.end('{}'), { tls: serverTls('loopback') })
  const ended = ['e30', Buffer.from('{"exp":1}').toString('base64url'), 'c2ln'].join('.')
  const ca = Buffer.from(certificate('ca.crt')).toString('base64')
  const settings = `id-token: "${ended}", client-id: c, refresh-token: r, idp-issuer-url: "${issuer.url.origin}"`
  const config = loaded(
    kubeconfig(`auth-provider: { name: oidc, config: { ${settings}, idp-certificate-authority-data: ${ca} } }`),
  )
  await assert.rejects(sent(config), /"server" must be an instance of URL/)
  assert.deepEqual(issuer.asked, [])
})

/** Sets environment variables for the rest of a test. */
function setEnvironment(t: TestContext, variables: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name]
    set(name, value)
    t.after(() => set(name, before))
  }
}

function set(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name]
  else process.env[name] = value
}
