import assert from 'node:assert/strict'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { KubeConfig } from '@kubernetes/client-node'
import { type LoadedKubeConfig, type LoadKubeConfigOptions, loadKubeConfig } from '../../src/kube/kube-config.ts'
import { KubeConfigError } from '../../src/kube/kube-config-document.ts'
import { endReadingsOf, makeHangingFile } from '../support/hanging-file.ts'
import { tempDir } from '../support/temp-dir.ts'
import { withTimeout } from '../support/with-timeout.ts'
import { certificate, certificateFile } from './loopback-server.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const caData = base64(certificate('ca.crt'))

/** A kubeconfig of one context. `cluster` and `user` are YAML flow mappings without braces. */
function configOf(cluster: string, user = 'token: t', rest = ''): string {
  return [
    'apiVersion: v1',
    'kind: Config',
    'current-context: dev',
    `clusters: [{ name: c, cluster: { ${cluster} } }]`,
    `users: [{ name: u, user: { ${user} } }]`,
    'contexts: [{ name: dev, context: { cluster: c, user: u, namespace: ns } }]',
    rest,
  ].join('\n')
}

/** Loads `text` as the file `config` of an empty directory, without environment variables. */
async function load(t: TestContext, text: string, options: LoadKubeConfigOptions = {}): Promise<LoadedKubeConfig> {
  const directory = await tempDir(t)
  const kubeconfig = join(directory, 'config')
  await writeFile(kubeconfig, text)
  return loadKubeConfig({ kubeconfig, environment: {}, homeDirectory: directory, ...options })
}

test('a kubeconfig is read, including the fields that client-node ignores', async (t) => {
  const { config, access } = await load(
    t,
    configOf(
      `server: "https://192.0.2.1:6443/prefix", tls-server-name: cluster.example.test, certificate-authority-data: ${caData},
       proxy-url: "http://proxy:3128", extensions: [{ name: client.authentication.k8s.io/exec, extension: { audience: a } }]`,
      'token: t, as: alice, as-uid: "7", as-groups: [a, b], as-user-extra: { reason: [x, y] }',
    ),
  )
  assert.equal(access.server.href, 'https://192.0.2.1:6443/prefix')
  assert.equal(access.serverName, 'cluster.example.test')
  assert.equal(access.proxy?.href, 'http://proxy:3128/')
  assert.equal(access.namespace, 'ns')
  assert.deepEqual(access.ca, { text: certificate('ca.crt') })
  assert.deepEqual(access.cluster.execConfig, { audience: 'a' })
  assert.match(access.source, /config, context "dev"$/)
  assert.deepEqual(access.user, {
    name: 'u',
    token: 't',
    impersonateUser: 'alice',
    impersonateUid: '7',
    impersonateGroups: ['a', 'b'],
    impersonateExtra: { reason: ['x', 'y'] },
  })
  assert.ok(config instanceof KubeConfig)
  assert.equal(config.getCurrentCluster()?.server, access.cluster.server)
})

test('relative paths start at the file that contains them; a command is a path only if it has a slash', async (t) => {
  const directory = await tempDir(t)
  await mkdir(join(directory, 'pki'))
  for (const name of ['ca.crt', 'client-1.crt', 'client-1.key']) {
    await writeFile(join(directory, 'pki', name), certificate(name))
  }
  await writeFile(join(directory, 'token'), 't\n')
  const exec = (command: string): string =>
    `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ${command} }`
  const cluster = 'server: https://192.0.2.1, certificate-authority: pki/ca.crt'
  const user = 'tokenFile: token, client-certificate: pki/client-1.crt, client-key: ./pki/client-1.key'
  const kubeconfig = join(directory, 'config')
  const at = (name: string): string => join(directory, name)

  await writeFile(kubeconfig, configOf(cluster, user))
  const { access } = await loadKubeConfig({ kubeconfig, environment: {} })
  assert.deepEqual(access.ca, { file: at('pki/ca.crt') })
  assert.deepEqual(access.clientCertificate, {
    cert: { file: at('pki/client-1.crt') },
    key: { file: at('pki/client-1.key') },
  })
  assert.equal(access.user?.tokenFile, at('token'))
  for (const [command, resolved] of [
    ['aws', 'aws'],
    ['./bin/aws', at('bin/aws')],
    ['/bin/aws', '/bin/aws'],
  ] as const) {
    await writeFile(kubeconfig, configOf(cluster, exec(command)))
    assert.equal((await loadKubeConfig({ kubeconfig, environment: {} })).access.user?.exec.command, resolved)
  }
})

test('of several files the first one that sets a value wins, and missing files are ignored', async (t) => {
  const directory = await tempDir(t)
  const one = join(directory, 'one')
  const two = join(directory, 'two')
  await writeFile(one, 'clusters: [{ name: c, cluster: { server: https://one.test } }]')
  await writeFile(two, configOf('server: https://two.test', 'token: t'))
  const environment = { KUBECONFIG: [join(directory, 'missing'), '', one, two].join(delimiter) }
  const { access } = await loadKubeConfig({ environment })
  assert.equal(access.server.href, 'https://one.test/')
  assert.equal(access.user?.token, 't')
  assert.equal(access.source, `${one}${delimiter}${two}, context "dev"`)
})

test('without a file the environment, the home directory and the Pod are tried, in this order', async (t) => {
  const home = await tempDir(t)
  const account = await tempDir(t)
  const pod = { KUBERNETES_SERVICE_HOST: '2001:db8::1', KUBERNETES_SERVICE_PORT: '443' }
  const options = { homeDirectory: home, serviceAccountDirectory: account, environment: pod }
  await assert.rejects(loadKubeConfig(options), (error: Error) =>
    /^no cluster is configured: set --kubeconfig FILE/.test(error.message),
  )

  await writeFile(join(account, 'token'), 'pod-token\n')
  await writeFile(join(account, 'ca.crt'), certificate('ca.crt'))
  await writeFile(join(account, 'namespace'), 'kube-system\n')
  const { access } = await loadKubeConfig(options)
  assert.equal(access.server.href, 'https://[2001:db8::1]/')
  assert.equal(access.namespace, 'kube-system')
  assert.equal(access.user?.tokenFile, join(account, 'token'))

  await mkdir(join(home, '.kube'))
  await writeFile(join(home, '.kube', 'config'), configOf('server: https://home.test'))
  assert.equal((await loadKubeConfig(options)).access.server.host, 'home.test')
  assert.equal((await loadKubeConfig({ ...options, inCluster: true })).access.server.hostname, '[2001:db8::1]')

  const file = join(home, 'other')
  await writeFile(file, configOf('server: https://other.test'))
  assert.equal(
    (await loadKubeConfig({ ...options, environment: { KUBECONFIG: file } })).access.server.host,
    'other.test',
  )
})

test('a server may be plain HTTP without a scheme, and its proxy may come from the environment', async (t) => {
  const plain = await load(t, configOf('server: "192.0.2.1:8080/"'), { environment: { HTTP_PROXY: 'proxy:3128' } })
  assert.equal(plain.access.server.href, 'http://192.0.2.1:8080/')
  assert.equal(plain.access.proxy?.host, 'proxy:3128')
})

const server = 'server: https://192.0.2.1'
const key = base64(certificate('client-1.key'))
const cert = base64(certificate('client-1.crt'))
const exec = 'apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: x'
const mistakes: [text: string, words: RegExp, options?: LoadKubeConfigOptions][] = [
  ['', /: the file is empty$/],
  ['- a', /: not a kubeconfig: the top level is not a mapping$/],
  ['a: hunter2: b', /, line 1: a second ": " in one line; put the value in quotation marks, or on lines of its own$/],
  ['kind: Config\nkind: Config', /, line 2: this key is given twice$/],
  // A syntax mistake below does not hide the repeated key, nor one above or in the same place the mistake.
  ['kind: Config\nkind: Config\na: @b', /, line 2: this key is given twice$/],
  ['a: @b\nkind: Config\nkind: Config', /, line 1: a value that begins with such a sign must be in quotation marks$/],
  // The outer mapping is checked first.
  ['a:\n  b: 1\n  b: 2\na: 3', /, line 3: this key is given twice$/],
  ['1: hunter2\n"1": hunter2', /, line 2: this key is given twice$/],
  ['{"kind": "Config"', /, line 1: the \{ here is not closed with \}$/],
  [
    'kind: Config\nhunter2\nusers: []',
    /, line 2: this line is not a setting: write NAME: VALUE, with a space after the colon$/,
  ],
  ['token: "hunter2\\q"', /, line 1: a backslash is not a valid escape between " and "/],
  ['token: @hunter2', /, line 1: a value that begins with such a sign must be in quotation marks$/],
  ['kind: }hunter2', /, line 1: a bracket has no opening bracket$/],
  ['kind: Pod', /, line 1: not a kubeconfig: its kind is not Config$/],
  ['clusters: {}', /, line 1: clusters is not a list$/],
  ['clusters:\n- cluster: {}', /, line 2: clusters\[0\] has no name$/],
  ['users:\n- name: u\n  user:\n    token: 1234', /, line 4: token of user "u" is not a string; quote it$/],
  ['kind: Config', /: no current-context is set; name a context with --context \(the kubeconfig has no contexts\)$/],
  [configOf(server).replace('current-context: dev', ''), /: no current-context is set; .*\(contexts: dev\)$/],
  [configOf(server), /: context "prod" does not exist; contexts: dev$/, { context: 'prod' }],
  [
    configOf(server).replace('cluster: c,', 'cluster: d,'),
    /: context "dev" refers to the cluster "d", which does not exist; clusters: c$/,
  ],
  [configOf(server).replace('cluster: c,', ''), /: context "dev" has no cluster$/],
  [
    configOf(server).replace('user: u,', 'user: v,'),
    /: context "dev" refers to the user "v", which does not exist; users: u$/,
  ],
  [configOf(''), /: cluster "c" has no server$/],
  [configOf('server: "https://"'), /: server of cluster "c" is not a URL such as https:/],
  [configOf('server: "ftp://192.0.2.1"'), /: server of cluster "c" is neither an https nor an http URL$/],
  [
    configOf('server: "https://u:hunter2@192.0.2.1"'),
    /: server of cluster "c" contains credentials; move them to users$/,
  ],
  [
    configOf(`${server}, proxy-url: "socks5://p:1"`),
    /: proxy-url of cluster "c" names a socks5 proxy; only http and https/,
  ],
  [configOf(server), /: HTTPS_PROXY names a socks5 proxy/, { environment: { HTTPS_PROXY: 'socks5://p:1' } }],
  [
    configOf(`${server}, certificate-authority-data: "%%"`),
    /: certificate-authority-data of cluster "c" is not base64$/,
  ],
  [
    configOf(`${server}, certificate-authority-data: ${base64('x')}`),
    /: no PEM certificate in the certificate authority of cluster "c"$/,
  ],
  [
    configOf(`${server}, certificate-authority-data: ${base64(certificate('ca.crt').replace(/M/g, 'N'))}`),
    /: a damaged PEM certificate in the/,
  ],
  [
    configOf(`${server}, certificate-authority: missing.crt`),
    /: certificate authority of cluster "c" \(.*missing\.crt\): no such file$/,
  ],
  [
    configOf(`${server}, certificate-authority: a, certificate-authority-data: ${caData}`),
    /are mutually exclusive; remove one$/,
  ],
  [
    configOf(`${server}, insecure-skip-tls-verify: true, certificate-authority-data: ${caData}`),
    /are mutually exclusive; remove one$/,
  ],
  [configOf(server, `client-certificate-data: ${cert}`), /: client-certificate of user "u" has no client-key$/],
  [configOf(server, `client-key-data: ${key}`), /: client-key of user "u" has no client-certificate$/],
  [
    configOf(server, `client-certificate-data: ${cert}, client-key-data: ${base64(certificate('client-2.key'))}`),
    /: the client key does not match the client certificate of user "u"$/,
  ],
  [
    configOf(server, `client-certificate-data: ${cert}, client-key-data: ${base64('x')}`),
    /: no unencrypted PEM private key/,
  ],
  [
    configOf(server, `client-certificate-data: ${base64('x')}, client-key-data: ${key}`),
    /: no PEM certificate in the client certificate/,
  ],
  [configOf(server, 'tokenFile: missing'), /: tokenFile .*missing of user "u": no such file$/],
  [
    configOf(server, 'token: t, username: n'),
    /: user "u" has both a token and a user name or password; only one is allowed$/,
  ],
  [
    configOf(server, `exec: { ${exec} }, auth-provider: { name: oidc }`),
    /: user "u" has both an exec plugin and an auth-provider/,
  ],
  [
    configOf(server, 'exec: { apiVersion: client.authentication.k8s.io/v1 }'),
    /: the exec plugin of user "u" has no command$/,
  ],
  [
    configOf(server, 'exec: { apiVersion: client.authentication.k8s.io/v1alpha1, command: x }'),
    /no supported apiVersion/,
  ],
  [configOf(server, `exec: { ${exec.replace('Never', 'Always')} }`), /requires a terminal/],
  ...['http://192.0.2.1:8080', '192.0.2.1:8080'].map((plain): (typeof mistakes)[number] => [
    configOf(`server: "${plain}", certificate-authority-data: ${caData}`),
    /: the certificate authority of cluster "c" has no effect with http:\/\/192\.0\.2\.1:8080; use https:\/\/ or remove it$/,
  ]),
  [
    configOf(server, 'auth-provider: { name: gcp, config: { cmd-path: sleep, cmd-args: "4" } }'),
    /: the auth-provider gcp of user "u" is no longer supported; use the exec plugin gke-gcloud-auth-plugin$/,
  ],
  [
    configOf(server, 'token: t, auth-provider: { name: azure }'),
    /: the auth-provider azure of user "u" is no longer supported; use the exec plugin kubelogin$/,
  ],
  ...['admins', '[1]', '{ a: b }'].map((groups): (typeof mistakes)[number] => [
    configOf(server, `token: t, as: alice, as-groups: ${groups}`),
    /: as-groups of user "u" is not a list of strings; quote them$/,
  ]),
  ...['admins', '[a]', '{ reason: why }', '{ reason: [1] }'].map((extra): (typeof mistakes)[number] => [
    configOf(server, `token: t, as: alice, as-user-extra: ${extra}`),
    /: as-user-extra of user "u" is not a mapping of lists of strings; quote them$/,
  ]),
  [configOf(server, 'token: t, as-groups: [a]'), /: user "u" has as-groups, as-uid or as-user-extra, but no as$/],
]
for (const [text, words, options] of mistakes) {
  test(`a kubeconfig is refused with a one-line error that matches ${words.source}`, async (t) => {
    await assert.rejects(load(t, text, options), (error) => {
      assert.ok(error instanceof KubeConfigError, String(error))
      assert.match(error.message, words)
      assert.match(error.message, /^kubeconfig [^:,]*config[,:] /)
      assert.doesNotMatch(error.message, /\n|hunter2/)
      return true
    })
  })
}

test('if credentials are awaited, the files of a user may be missing; other mistakes are still refused', async (t) => {
  const awaited = (user: string, cluster = server): Promise<LoadedKubeConfig> =>
    load(t, configOf(cluster, user), { awaitsCredentials: true })
  await awaited('tokenFile: missing')
  await awaited('client-certificate: missing.crt, client-key: missing.key')
  await awaited(`client-certificate-data: ${cert}, client-key: missing.key`)
  await assert.rejects(
    awaited(`client-certificate-data: ${base64('x')}, client-key-data: ${key}`),
    /no PEM certificate/,
  )
  await assert.rejects(awaited('client-certificate: missing.crt'), /has no client-key$/)
  await assert.rejects(awaited('tokenFile: missing', `${server}, certificate-authority: missing.crt`), /no such file$/)
})

test('if credentials are awaited, the files of a user may be empty or half written', async (t) => {
  const directory = await tempDir(t)
  const file = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text)
  const half = (name: string): string => certificate(name).slice(0, certificate(name).length / 2)
  const pair = `client-certificate: ${directory}/crt, client-key: ${directory}/key`
  for (const [crt, clientKey] of [
    ['', ''],
    [half('client-1.crt'), ''],
    [certificate('client-1.crt'), half('client-1.key')],
    [certificate('client-1.crt'), certificate('client-2.key')],
  ] as const) {
    await file('crt', crt)
    await file('key', clientKey)
    await assert.rejects(load(t, configOf(server, pair)), KubeConfigError)
    await load(t, configOf(server, pair), { awaitsCredentials: true })
  }
  await file('token', '')
  await assert.rejects(load(t, configOf(server, `tokenFile: ${directory}/token`)), KubeConfigError)
  await load(t, configOf(server, `tokenFile: ${directory}/token`), { awaitsCredentials: true })
})

test('the error for a file that cannot be read names the file and the reason', async (t) => {
  const directory = await tempDir(t)
  const missing = join(directory, 'missing')
  const reasonOf = (options: LoadKubeConfigOptions): Promise<string> =>
    loadKubeConfig({ environment: {}, ...options }).then(
      () => '',
      (error: Error) => error.message,
    )
  assert.equal(await reasonOf({ kubeconfig: missing }), `kubeconfig ${missing}: no such file`)
  assert.equal(await reasonOf({ kubeconfig: directory }), `kubeconfig ${directory}: it is a directory`)
  assert.equal(
    await reasonOf({ environment: { KUBECONFIG: missing } }),
    `kubeconfig ${missing} (from $KUBECONFIG): no such file`,
  )
  assert.match(await reasonOf({ inCluster: true }), /^not in a Pod: KUBERNETES_SERVICE_HOST/)
  const account = { inCluster: true, serviceAccountDirectory: directory }
  const environment = { KUBERNETES_SERVICE_HOST: '192.0.2.1', KUBERNETES_SERVICE_PORT: '443' }
  assert.match(await reasonOf({ ...account, environment }), /^this Pod has no service account token: .*: no such file$/)
})

test('an unusable kubeconfig is parsed once, and a later usable one is accepted', async (t) => {
  const file = join(await tempDir(t), 'config')
  await writeFile(file, configOf(server))
  const { reload } = await loadKubeConfig({ kubeconfig: file, environment: {} })
  const refusal = (): Promise<unknown> => reload().catch((error: unknown) => error)
  await writeFile(file, configOf('server: https://192.0.2.9'))
  const first = await refusal()
  assert.match(String(first), /the server has changed to https:\/\/192\.0\.2\.9/)
  assert.equal(await refusal(), first)
  await writeFile(file, 'no: [kubeconfig')
  assert.notEqual(await refusal(), first)
  await writeFile(file, `${configOf(server)}\n`)
  assert.equal((await reload()).access.server.host, '192.0.2.1')
})

test('hanging files of $KUBECONFIG leave threads for other files', { timeout: 60_000 }, async (t) => {
  const directory = await tempDir(t)
  const files = ['one', 'two', 'three', 'four'].map((name) => join(directory, name))
  for (const file of files) await writeFile(file, configOf(server))
  const { reload } = await loadKubeConfig({ environment: { KUBECONFIG: files.join(delimiter) } })
  for (const file of files) {
    await rm(file)
    makeHangingFile(file)
  }
  const reloaded = assert.rejects(reload(), /the file is empty$/)
  try {
    await withTimeout(readFile(certificateFile('ca.crt')), 10_000, 'another file')
  } finally {
    for (const file of files) await endReadingsOf(file)
  }
  await reloaded
})

test('mistakes in entries that the context does not use are ignored', async (t) => {
  const text = configOf(server).replace(
    'clusters: [',
    `clusters: [{ name: other }, { name: bad, cluster: { server: "" } }, `,
  )
  assert.equal((await load(t, text)).access.server.host, '192.0.2.1')
})

test('the path of a certificate file may be absolute', async (t) => {
  const text = configOf(`${server}, certificate-authority: ${certificateFile('ca.crt')}`)
  assert.deepEqual((await load(t, text)).access.ca, { file: certificateFile('ca.crt') })
})

test('base64 with 333,333 blanks is refused in less than 20 seconds', async (t) => {
  const startMs = performance.now()
  const text = configOf(`${server}, certificate-authority-data: "A${' '.repeat(333_333)}%"`)
  await assert.rejects(load(t, text), /: certificate-authority-data of cluster "c" is not base64$/)
  // In milliseconds. Code that checks each blank once for each other blank takes two minutes.
  assert.ok(performance.now() - startMs < 20_000)
})
