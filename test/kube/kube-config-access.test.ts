import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Cluster, Context, User } from '@kubernetes/client-node/dist/config_types.js'
import type { ProxyEnvironment } from '../../src/kube/http-proxy.ts'
import {
  type Access,
  authorityProblem,
  escapeHeaderKey,
  impersonationHeaders,
  keyPairProblem,
  readPem,
  remedyOf,
  resolveAccess,
} from '../../src/kube/kube-config-access.ts'
import {
  type ClusterEntry,
  type KubeConfig,
  KubeConfigError,
  type UserEntry,
} from '../../src/kube/kube-config-document.ts'
import { withoutSecrets } from '../../src/telemetry/secrets.ts'
import { tempDir } from '../support/temp-dir.ts'
import { certificate, certificateFile } from './loopback-server.ts'

const https = 'https://192.0.2.1:6443'
const http = 'http://192.0.2.1:8080'
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const caData = base64(certificate('ca.crt'))
const certData = base64(certificate('client-1.crt'))
const keyData = base64(certificate('client-1.key'))
const exec = {
  command: 'plugin',
  apiVersion: 'client.authentication.k8s.io/v1',
  interactiveMode: 'Never',
} as NonNullable<User['exec']>

interface Given {
  readonly cluster?: Partial<ClusterEntry>
  readonly user?: Partial<UserEntry> | undefined
  readonly context?: Partial<Context>
  readonly config?: Partial<KubeConfig>
  readonly environment?: ProxyEnvironment
  readonly awaitsCredentials?: boolean
}

/** The access of a context `x` with the cluster `c`, and with the user `u` if there is one. */
function access({ cluster, user, context, config, environment = {}, awaitsCredentials }: Given): Access {
  const entries: Partial<KubeConfig> = {
    clusters: [{ name: 'c', server: https, skipTLSVerify: false, ...cluster } as Cluster],
    users: user === undefined ? [] : [{ name: 'u', ...user } as User],
    contexts: [{ name: 'x', cluster: 'c', user: user === undefined ? '' : 'u', ...context }],
    currentContext: 'x',
    ...config,
  }
  return resolveAccess(entries as KubeConfig, 'FILE', environment, awaitsCredentials ? 'authority' : 'all')
}

function refused(given: Given, words: string): void {
  assert.throws(() => access(given), new KubeConfigError(`kubeconfig FILE: ${words}`))
}

test('a context with only a cluster yields anonymous access without further settings', () => {
  const { cluster, ...rest } = access({ context: { namespace: '' }, cluster: { tlsServerName: '' } })
  assert.equal(cluster.name, 'c')
  assert.deepEqual(rest, {
    source: 'FILE, context "x"',
    server: new URL(https),
    serverName: undefined,
    skipVerify: false,
    ca: undefined,
    clientCertificate: undefined,
    proxy: undefined,
    namespace: undefined,
    user: undefined,
    warnings: [],
  })
  const named = access({ context: { namespace: 'ns' }, cluster: { tlsServerName: 'name', caData } })
  assert.deepEqual([named.namespace, named.serverName, named.ca], ['ns', 'name', { text: certificate('ca.crt') }])
})

test('a context must be named, exist and refer to existing entries; the error lists those that exist', () => {
  for (const currentContext of ['', null, undefined] as unknown as string[]) {
    refused({ config: { currentContext } }, 'no current-context is set; name a context with --context (contexts: x)')
  }
  refused({ config: { currentContext: 'y' } }, 'context "y" does not exist; contexts: x')
  refused({ context: { cluster: '' } }, 'context "x" has no cluster')
  const missing = 'which does not exist'
  refused({ context: { cluster: 'd' } }, `context "x" refers to the cluster "d", ${missing}; clusters: c`)
  refused({ context: { user: 'v' } }, `context "x" refers to the user "v", ${missing}; the kubeconfig has no users`)
  const names = Array.from({ length: 25 }, (_, index) => `c${index}`)
  const many = names.flatMap((name) => [name, name]).map((name) => ({ name, cluster: 'c', user: '' }))
  refused({ config: { contexts: many } }, `context "x" does not exist; contexts: ${names.slice(0, 20).join(', ')}`)
})

test('of several entries with the same name the first one counts', () => {
  const clusters = [
    { name: 'c', server: https },
    { name: 'c', server: http },
  ] as Cluster[]
  assert.equal(access({ config: { clusters } }).server.origin, https)
})

test('a server is an http or https URL without credentials, query and fragment; without a scheme it is http', () => {
  assert.equal(access({ cluster: { server: '192.0.2.1:8080' } }).server.href, `${http}/`)
  assert.equal(access({ cluster: { server: `${https}/prefix` } }).server.pathname, '/prefix')
  for (const server of ['', undefined, null] as unknown as string[])
    refused({ cluster: { server } }, 'cluster "c" has no server')
  for (const [server, words] of [
    ['https://', 'is not a URL such as https://192.0.2.1:6443'],
    ['https://a b', 'is not a URL such as https://192.0.2.1:6443'],
    ['unix:///run/api', 'is not a URL such as https://192.0.2.1:6443'],
    ['ws://192.0.2.1', 'is neither an https nor an http URL'],
    ['https://name@192.0.2.1', 'contains credentials; move them to users'],
    ['https://:word@192.0.2.1', 'contains credentials; move them to users'],
    [`${https}?a=b`, 'has a query or fragment; remove it'],
    [`${https}#a`, 'has a query or fragment; remove it'],
  ] as const) {
    refused({ cluster: { server } }, `server of cluster "c" ${words}`)
  }
})

test('the proxy-url of the cluster takes precedence over the proxy of the environment', () => {
  const environment = { HTTPS_PROXY: 'http://other:1' }
  assert.equal(access({ environment }).proxy?.host, 'other:1')
  assert.equal(access({ environment, cluster: { proxyUrl: 'http://own:1' } }).proxy?.host, 'own:1')
  assert.throws(() => access({ cluster: { proxyUrl: 'socks5://own:1' } }), KubeConfigError)
})

test('a certificate authority requires verified TLS and an undamaged certificate', () => {
  const of = 'of cluster "c"'
  const both = `insecure-skip-tls-verify and a certificate authority ${of} are mutually exclusive; remove one`
  refused({ cluster: { caData, skipTLSVerify: true } }, both)
  const useless = `the certificate authority ${of} has no effect with ${http}; use https:// or remove it`
  refused({ cluster: { caData, server: http } }, useless)
  refused({ cluster: { caData: base64('x') } }, `no PEM certificate in the certificate authority ${of}`)
  const damaged = base64(certificate('ca.crt') + certificate('other-ca.crt').replace(/M/g, 'N'))
  refused({ cluster: { caData: damaged } }, `a damaged PEM certificate in the certificate authority ${of}`)
  const missing = `certificate authority ${of} (/nowhere/ca.crt): no such file`
  refused({ cluster: { caFile: '/nowhere/ca.crt' }, awaitsCredentials: true }, missing)
  const exclusive = `certificate-authority and certificate-authority-data ${of} are mutually exclusive; remove one`
  refused({ cluster: { caFile: '/a', caData } }, exclusive)
  refused({ cluster: { caData: '%' } }, `certificate-authority-data ${of} is not base64`)
  const folded = caData.replace(/.{64}/g, '$&\n ')
  assert.deepEqual(access({ cluster: { caData: folded } }).ca, { text: certificate('ca.crt') })
  const file = certificateFile('ca.crt')
  const pem = access({ cluster: { caFile: file } }).ca
  assert.deepEqual(pem, { file })
  assert.equal(pem && readPem(pem), certificate('ca.crt'))
})

test('insecure-skip-tls-verify causes a warning, but only with TLS', () => {
  const { warnings, skipVerify } = access({ cluster: { skipTLSVerify: true } })
  assert.equal(skipVerify, true)
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /^insecure-skip-tls-verify of cluster "c": .* to https:\/\/192\.0\.2\.1:6443 can /)
  assert.deepEqual(access({ cluster: { skipTLSVerify: true, server: http } }).warnings, [])
})

test('without TLS no kind of credentials is sent, which causes a warning; impersonation stays', () => {
  const impersonated = {
    impersonateUser: 'alice',
    impersonateUid: '7',
    impersonateGroups: ['a'],
    impersonateExtra: { reason: ['x'] },
  }
  const warning = `the credentials of user "u" are not sent to ${http} without TLS; use https:// in the server of cluster "c"`
  const kinds: readonly Partial<UserEntry>[] = [
    { token: 'some-token' },
    { tokenFile: certificateFile('ca.crt') },
    { username: 'name' },
    { password: 'some-password' },
    { exec },
    { authProvider: { name: 'oidc' } as NonNullable<User['authProvider']> },
    { certData, keyData },
  ]
  for (const user of kinds) {
    const plain = access({ cluster: { server: http }, user: { ...user, ...impersonated } })
    assert.deepEqual(plain.user, { name: 'u', ...impersonated })
    assert.deepEqual([plain.clientCertificate, plain.warnings], [undefined, [warning]])
  }
  assert.deepEqual(access({ cluster: { server: http }, user: impersonated }).warnings, [])
  assert.deepEqual(access({ cluster: { server: http } }).user, undefined)
})

test('tokens and passwords are redacted from texts after the kubeconfig was read', () => {
  access({ user: { token: 'token-of-this-test' } })
  access({ user: { username: 'n', password: 'password-of-this-test' } })
  assert.doesNotMatch(withoutSecrets('token-of-this-test password-of-this-test'), /of-this-test/)
})

test('a user may have only one kind of credentials, and only an exec plugin that this program can run', () => {
  const of = 'user "u"'
  const both = `${of} has both a token and a user name or password; only one is allowed`
  refused({ user: { token: 't', username: 'n' } }, both)
  refused({ user: { token: 't', password: 'p' } }, both)
  const authProvider = { name: 'oidc' } as NonNullable<User['authProvider']>
  refused({ user: { exec, authProvider } }, `${of} has both an exec plugin and an auth-provider; only one is allowed`)
  for (const [name, plugin] of [
    ['gcp', 'gke-gcloud-auth-plugin'],
    ['azure', 'kubelogin'],
  ] as const) {
    const words = `the auth-provider ${name} of ${of} is no longer supported; use the exec plugin ${plugin}`
    refused({ user: { authProvider: { ...authProvider, name } } }, words)
  }
  refused({ user: { exec: { ...exec, command: '' } } }, `the exec plugin of ${of} has no command`)
  for (const apiVersion of [undefined, 'client.authentication.k8s.io/v1alpha1', 'a/client.authentication.k8s.io/v1']) {
    const words = `the exec plugin of ${of} has no supported apiVersion; use client.authentication.k8s.io/v1 or v1beta1`
    refused({ user: { exec: { ...exec, apiVersion } as typeof exec } }, words)
  }
  const always = { ...exec, interactiveMode: 'Always' } as typeof exec
  refused({ user: { exec: always } }, `the exec plugin of ${of} requires a terminal (interactiveMode: Always)`)
  const v1beta1 = { apiVersion: 'client.authentication.k8s.io/v1beta1' }
  for (const more of [
    { interactiveMode: undefined },
    { interactiveMode: null },
    { interactiveMode: '' },
    { interactiveMode: 'never' },
    { interactiveMode: 5 },
    { ...v1beta1, interactiveMode: 'never' },
  ]) {
    const words = `the exec plugin of ${of} needs an interactiveMode: Never or IfAvailable`
    refused({ user: { exec: { ...exec, ...more } as never } }, words)
  }
  for (const more of [{ interactiveMode: 'IfAvailable' }, { ...v1beta1, interactiveMode: undefined }]) {
    access({ user: { exec: { ...exec, ...more } as typeof exec } })
  }
  access({ user: { authProvider } })
})

test('the command, arguments and variables of an exec plugin must be strings', () => {
  const withExec = (more: object): Given => ({ user: { exec: { ...exec, ...more } } })
  refused(withExec({ command: 5 }), 'the command of the exec plugin of user "u" is not a string; quote it')
  for (const args of ['get-token', 5, { a: 'b' }, [1], ['a', null]]) {
    refused(withExec({ args }), 'args of the exec plugin of user "u" is not a list of strings; quote them')
  }
  for (const env of ['A', 5, { A: 'b' }, [null], ['A'], [{ value: 'a' }], [{ name: 'A', value: 5 }]]) {
    refused(withExec({ env }), 'env of the exec plugin of user "u" is not a list of a name and a value, quoted')
  }
  access(withExec({ args: null, env: null }))
  access(withExec({ args: ['a', ''], env: [{ name: 'A', value: 'b' }, { name: 'B' }, { name: 'C', value: null }] }))
})

test('as-groups, as-uid and as-user-extra require as', () => {
  const words = 'user "u" has as-groups, as-uid or as-user-extra, but no as'
  for (const user of [{ impersonateGroups: ['a'] }, { impersonateUid: '7' }, { impersonateExtra: {} }]) {
    refused({ user }, words)
    refused({ user: { ...user, impersonateUser: '' } }, words)
    access({ user: { ...user, impersonateUser: 'alice' } })
  }
  access({ user: { impersonateGroups: [] } })
})

test('a token or name that no HTTP header can carry, or a token of more than 64 KiB, is refused', () => {
  const unfit = 'contains a character that no HTTP header may have'
  refused({ user: { token: 'one\n' } }, `the token of user "u" ${unfit}`)
  refused({ user: { token: 't'.repeat(65_537) } }, 'the token of user "u" has more than 65536 characters')
  const name = 'a name under as, as-groups, as-uid or as-user-extra of user "u"'
  refused({ user: { impersonateUser: 'zoë €' } }, `${name} ${unfit}`)
  refused({ user: { impersonateUser: 'a', impersonateGroups: ['b\nc'] } }, `${name} ${unfit}`)
})

test('a token file must exist and have content, unless the credentials are awaited', async (t) => {
  const file = join(await tempDir(t), 'token')
  refused({ user: { tokenFile: file } }, `tokenFile ${file} of user "u": no such file`)
  await writeFile(file, ' \n')
  refused({ user: { tokenFile: file } }, `tokenFile ${file} of user "u" is empty`)
  access({ user: { tokenFile: file }, awaitsCredentials: true })
  await writeFile(file, 'a-token')
  access({ user: { tokenFile: file } })
})

test('a client certificate requires the key that matches it; missing files are accepted if they are awaited', () => {
  const of = 'of user "u"'
  refused({ user: { certData } }, `client-certificate ${of} has no client-key`)
  refused({ user: { keyData } }, `client-key ${of} has no client-certificate`)
  const mismatch = `the client key does not match the client certificate ${of}`
  const otherKey = base64(certificate('client-2.key'))
  for (const awaitsCredentials of [false, true]) {
    refused({ user: { certData, keyData: otherKey }, awaitsCredentials }, mismatch)
    refused({ user: { keyFile: '/nowhere' }, awaitsCredentials }, `client-key ${of} has no client-certificate`)
  }
  const files = [
    [{ certFile: '/nowhere', keyData }, `client certificate ${of} (/nowhere): no such file`],
    [{ certData, keyFile: '/nowhere' }, `client key ${of} (/nowhere): no such file`],
  ] as const
  for (const [user, words] of files) {
    refused({ user }, words)
    assert.ok(access({ user, awaitsCredentials: true }).clientCertificate)
  }
  const pair = { certFile: certificateFile('client-1.crt'), keyFile: certificateFile('client-1.key') }
  assert.deepEqual(access({ user: pair }).clientCertificate, {
    cert: { file: pair.certFile },
    key: { file: pair.keyFile },
  })
  const { clientCertificate } = access({ user: { certData, keyData } })
  assert.deepEqual(clientCertificate?.cert, { text: certificate('client-1.crt') })
  assert.deepEqual(clientCertificate.key, { text: certificate('client-1.key') })
})

test('the errors for a certificate, a key and authorities name what is wrong', () => {
  const [cert, key] = [certificate('client-1.crt'), certificate('client-1.key')]
  assert.equal(keyPairProblem(cert, key), undefined)
  assert.match(
    keyPairProblem(`${cert}\n${cert.slice(0, 200)}\n-----END CERTIFICATE-----\n`, key) ?? '',
    /^the client certificate cannot be used \(.+\)$/,
  )
  assert.equal(keyPairProblem('', key), 'no PEM certificate in the client certificate')
  assert.equal(keyPairProblem(cert, ''), 'no unencrypted PEM private key in the client key')
  assert.equal(keyPairProblem(cert, cert), 'no unencrypted PEM private key in the client key')
  assert.equal(
    keyPairProblem(cert, certificate('client-2.key')),
    'the client key does not match the client certificate',
  )
  assert.equal(authorityProblem(certificate('ca.crt') + certificate('other-ca.crt')), undefined)
  assert.equal(authorityProblem(key), 'no PEM certificate')
})

test('the remedy for refused credentials names where they come from', () => {
  const remedy = (user?: Partial<UserEntry>): string => remedyOf(access({ user, awaitsCredentials: true }))
  assert.equal(remedy({ tokenFile: '/run/token', token: 't', exec }), 'write a newer token to /run/token')
  assert.equal(remedy({ token: 't', exec }), 'write a newer token into the kubeconfig')
  assert.equal(remedy({ username: 'n', exec }), 'write the right username and password into the kubeconfig')
  assert.equal(remedy({ exec, certData, keyData }), 'check that the exec plugin plugin returns valid credentials')
  const authProvider = { name: 'oidc' } as NonNullable<User['authProvider']>
  assert.equal(remedy({ authProvider, certData, keyData }), 'log in again with the auth-provider oidc')
  assert.equal(remedy({ certData, keyData }), 'write a newer client certificate into the kubeconfig')
  assert.equal(remedy({ certFile: '/crt', keyFile: '/key' }), 'write a newer client certificate to /crt')
  const none = 'no credentials are configured; add some for the user of the context to the kubeconfig'
  for (const user of [undefined, {}]) assert.equal(remedy(user), none)
})

test('the impersonation headers contain the fields that are set, and no others', () => {
  const user = (fields: Partial<UserEntry>) => impersonationHeaders({ name: 'u', ...fields } as UserEntry)
  assert.deepEqual(impersonationHeaders(undefined), {})
  assert.deepEqual(user({ impersonateUser: '', impersonateUid: '', impersonateGroups: [] }), {})
  assert.deepEqual(
    user({
      impersonateUser: 'alice',
      impersonateUid: '7',
      impersonateGroups: ['a', 'b'],
      impersonateExtra: { 'a/b': ['x', 'y'], none: [] },
    }),
    {
      'impersonate-user': 'alice',
      'impersonate-uid': '7',
      'impersonate-group': ['a', 'b'],
      'impersonate-extra-a%2Fb': ['x', 'y'],
      'impersonate-extra-none': [],
    },
  )
})

test('the bytes of an extra key that a header name may not contain are percent-encoded', () => {
  assert.equal(escapeHeaderKey("aZ09!#$&'*+.^_`|~-"), "aZ09!#$&'*+.^_`|~-")
  assert.equal(escapeHeaderKey('é%\n/:'), '%C3%A9%25%0A%2F%3A')
})
