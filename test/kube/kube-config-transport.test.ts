import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { KubeConfig } from '@kubernetes/client-node'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import { loadKubeConfig, readyzAccess } from '../../src/kube/kube-config.ts'
import { escapeHeaderKey } from '../../src/kube/kube-config-access.ts'
import { refreshIdToken } from '../../src/kube/kube-config-renewal.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'
import {
  ask,
  bodyFrom,
  echo,
  kubeconfigOf,
  mutualTls,
  never,
  request,
  setUp,
  shown,
  writePair,
} from './kube-config-setup.ts'
import { certificate, certificateFile, serverTls, startServer } from './loopback-server.ts'

test('a request carries the token, password, client certificate or exec plugin token of the user', async (t) => {
  const basic = Buffer.from('alice:secret').toString('base64')
  const exec =
    'exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [-c, "echo \'{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"e\\"}}\'"] }'
  const client = `client-certificate: ${certificateFile('client-1.crt')}, client-key: ${certificateFile('client-1.key')}`
  for (const [user, seen] of [
    ['', '|'],
    ['token: t', 'Bearer t|'],
    ['username: alice, password: secret', `Basic ${basic}|`],
    [client, '|client-1'],
    [`token: t, ${client}`, 'Bearer t|client-1'],
    [exec, 'Bearer e|'],
  ] as const) {
    const { transport } = await setUp(t, echo, () => user)
    assert.equal(await bodyFrom(transport), seen)
  }
})

test('a server without TLS receives no credentials, only the impersonated user, and that is logged once', async (t) => {
  const exec = 'exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: never-run }'
  const oidc = 'auth-provider: { name: oidc, config: { id-token: i } }'
  const client = `client-certificate: ${certificateFile('client-1.crt')}, client-key: ${certificateFile('client-1.key')}`
  for (const [user, warned] of [
    ['token: t', true],
    [`tokenFile: ${certificateFile('client-1.key')}`, true],
    ['username: alice, password: secret', true],
    [client, true],
    [exec, true],
    [oidc, true],
    ['', false],
  ] as const) {
    const seen: unknown[] = []
    const server = await startServer(t, ({ headers }, response) => {
      seen.push(headers.authorization, headers['impersonate-user'])
      response.end()
    })
    for (const written of [server.url.origin, server.url.host]) {
      const kubeconfig = join(await tempDir(t), 'config')
      await writeFile(kubeconfig, kubeconfigOf(written, `as: bob, ${user}`, ''))
      const { config, access } = await loadKubeConfig({ kubeconfig, environment: {} })
      const logger = memoryLogger()
      const transport = fromKubeConfig(config, { access, logger })
      t.after(() => transport.close())
      const own = fromKubeConfig(config, { access: readyzAccess(access, server.url, {}), logger })
      t.after(() => own.close())
      await ask(transport)
      await ask(own)
      const message = `the credentials of user "u" are not sent to ${server.url.origin} without TLS; use https:// in the server of cluster "c"`
      assert.deepEqual(
        logger.lines.map(({ level, message }) => [level, message]),
        warned ? [['warn', message]] : [],
      )
    }
    assert.deepEqual(seen, [undefined, 'bob', undefined, 'bob', undefined, 'bob', undefined, 'bob'])
  }
})

test('insecure-skip-tls-verify is logged once', async (t) => {
  const server = await startServer(t, echo, { tls: mutualTls })
  const kubeconfig = join(await tempDir(t), 'config')
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: t', 'insecure-skip-tls-verify: true'))
  const { config, access } = await loadKubeConfig({ kubeconfig, environment: {} })
  const logger = memoryLogger()
  const transport = fromKubeConfig(config, { access, logger })
  t.after(() => transport.close())
  for (let asked = 0; asked < 3; asked++) assert.equal(await bodyFrom(transport), 'Bearer t|')
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['warn'],
  )
  assert.match(
    logger.lines[0]?.message ?? '',
    /^insecure-skip-tls-verify of cluster "c": the certificate is not verified/,
  )
})

test('insecure-skip-tls-verify that is added to the kubeconfig later is logged once', async (t) => {
  const { transport, clock, server, kubeconfig, logger } = await setUp(t, echo, () => 'token: one')
  await ask(transport)
  assert.equal(logger.lines.length, 0)
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', 'insecure-skip-tls-verify: true'))
  for (let reading = 0; reading < 3; reading++) {
    await clock.advance(1_000)
    await ask(transport)
  }
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message.split(':')[0]}`),
    ['warn insecure-skip-tls-verify of cluster "c"'],
  )
})

test('NODE_TLS_REJECT_UNAUTHORIZED=0 does not turn off the verification of certificates', async (t) => {
  const server = await startServer(t, echo, { tls: { ...serverTls('loopback'), ALPNProtocols: ['h2', 'http/1.1'] } })
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
  t.after(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  const kubeconfig = join(await tempDir(t), 'config')
  await writeFile(
    kubeconfig,
    kubeconfigOf(server.url.origin, 'token: t', `certificate-authority: ${certificateFile('other-ca.crt')}`),
  )
  const { config, access } = await loadKubeConfig({ kubeconfig, environment: {} })
  const transport = fromKubeConfig(config, { access })
  t.after(() => transport.close())
  await assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable') && /authority/.test(error.message))

  const proxied = new HttpTransport({ server: new URL('https://192.0.2.1:6443'), proxy: server.url })
  t.after(() => proxied.close())
  await assert.rejects(ask(proxied), (error) => isKubeError(error, 'Unreachable') && /authority/.test(error.message))

  const settings = { 'client-id': 'c', 'refresh-token': 'r', 'idp-issuer-url': server.url.origin }
  const authority = { 'idp-certificate-authority': certificateFile('other-ca.crt') }
  await assert.rejects(refreshIdToken({ ...settings, ...authority }, never), /certificate|issuer/)

  const etcd = connectEtcd({
    endpoints: [parseEndpoint(server.url.origin)],
    clock: systemClock,
    cafile: certificateFile('other-ca.crt'),
  })
  t.after(() => etcd.close())
  await assert.rejects(etcd.get('/a', never), { code: 'BadCertificate' })
  assert.deepEqual(server.asked, [])
})

test('impersonation is sent in the headers of client-go', async (t) => {
  let headers: readonly string[] = []
  const { transport } = await setUp(
    t,
    (request, response) => {
      headers = request.rawHeaders
      response.end()
    },
    () => 'token: t, as: alice, as-uid: "7", as-groups: [a, b], as-user-extra: { "example.test/Why%": [x, y] }',
  )
  await ask(transport)
  const pairs = headers.flatMap((name, index) =>
    index % 2 === 0 ? [`${name.toLowerCase()}: ${headers[index + 1]}`] : [],
  )
  assert.deepEqual(
    pairs.filter((pair) => pair.startsWith('impersonate')),
    [
      'impersonate-user: alice',
      'impersonate-uid: 7',
      'impersonate-group: a',
      'impersonate-group: b',
      'impersonate-extra-example.test%2fwhy%25: x',
      'impersonate-extra-example.test%2fwhy%25: y',
    ],
  )
  assert.equal(escapeHeaderKey('a/ä:%'), 'a%2F%C3%A4%3A%25')
})

test('a token file is read every second, and a new token is used after two equal readings; unfit contents are not used', async (t) => {
  const token = (directory: string): string => join(directory, 'token')
  const { directory, server, clock, logger, transport } = await setUp(t, echo, async (directory) => {
    await writeFile(token(directory), 'one\n')
    return 'tokenFile: token'
  })
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  await writeFile(token(directory), ' two \n')
  await clock.advance(999)
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  await clock.advance(999)
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  await clock.advance(1)
  assert.equal(await bodyFrom(transport), 'Bearer two|')

  for (const unfit of ['', 'three\nlines', 'three\0more']) {
    await writeFile(token(directory), unfit)
    for (let i = 0; i < 3; i++) {
      await clock.advance(1_000)
      assert.equal(await bodyFrom(transport), 'Bearer two|')
    }
  }
  // First half written, then complete.
  for (const [text, seen] of [
    ['thr', 'two'],
    ['three', 'two'],
    ['three', 'three'],
  ]) {
    await writeFile(token(directory), text ?? '')
    await clock.advance(1_000)
    assert.equal(await bodyFrom(transport), `Bearer ${seen}|`)
  }
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['warn', 'info'],
  )
  assert.ok(server.connections() <= 2)
})

test('after a 401 a rotated token is read at once, and the request is sent a second time, but not a third', async (t) => {
  let accepted = 'Bearer one'
  const { directory, server, transport } = await setUp(
    t,
    (request, response) => {
      response.statusCode = request.headers.authorization === accepted ? 200 : 401
      response.end()
    },
    async (directory) => {
      await writeFile(join(directory, 'token'), 'one')
      return 'tokenFile: token'
    },
  )
  assert.equal((await ask(transport)).status, 200)
  accepted = 'Bearer two'
  await writeFile(join(directory, 'token'), 'two')
  const answers = await Promise.all([ask(transport), ask(transport), ask(transport)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  accepted = 'none'
  const before = server.asked.length
  assert.equal((await ask(transport)).status, 401)
  assert.equal(server.asked.length, before + 1)
})

test('a 401 for credentials that cannot change is returned without another attempt', async (t) => {
  const { server, transport } = await setUp(
    t,
    (_, response) => {
      response.writeHead(401).end()
    },
    () => 'token: t',
  )
  assert.equal((await ask(transport)).status, 401)
  assert.equal(server.asked.length, 1)
})

test('repeated 401s do not start the exec plugin for every request', async (t) => {
  const plugin = async (directory: string): Promise<string> => {
    const script = join(directory, 'plugin.sh')
    await writeFile(
      script,
      `echo run >>${directory}/log
       echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$(wc -l <${directory}/log)'"}}'`,
    )
    return `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}] }`
  }
  const tokens: string[] = []
  const { transport, clock } = await setUp(
    t,
    (request, response) => {
      tokens.push((request.headers.authorization ?? '').replace(/\s+/g, ' '))
      response.writeHead(401).end()
    },
    plugin,
  )
  for (let i = 0; i < 4; i++) assert.equal((await ask(transport)).status, 401)
  assert.deepEqual(tokens, ['Bearer 1', 'Bearer 2', 'Bearer 2', 'Bearer 2', 'Bearer 2'])
  await clock.advance(5_000)
  await ask(transport)
  assert.equal(tokens.at(-1), 'Bearer 3')
})

test('a request without any available credentials rejects with NoCredentials, and nothing is sent', async (t) => {
  const { server, transport } = await setUp(
    t,
    echo,
    () => 'exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "false" }',
  )
  await assert.rejects(ask(transport), (error) => isKubeError(error, 'NoCredentials'))
  assert.deepEqual(server.asked, [])
})

const probe = { ...request, mayBeAnonymous: true }

test('a readiness probe waits 250 ms for missing credentials and is then sent without any', async (t) => {
  const impersonated: unknown[] = []
  const listener: RequestListener = (request, response) => {
    impersonated.push(request.headers['impersonate-user'])
    echo(request, response)
  }
  const { transport, clock, logger, server, directory } = await setUp(t, listener, async (directory) => {
    const script = join(directory, 'plugin.sh')
    await writeFile(
      script,
      `while ! [ -e ${directory}/go ]; do sleep 0.02; done
       printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"late"}}'`,
    )
    return `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}] }, as: alice`
  })
  const waiting = bodyFrom(transport)
  for (const wait of [250, 250]) {
    const probed = transport.send(probe, never)
    await clock.advance(wait - 1)
    const before = server.asked.length
    await clock.advance(1)
    const answer = await probed
    assert.deepEqual([before + 1, 'body' in answer && answer.body], [server.asked.length, '|'])
  }
  assert.equal(server.connections(), 1)
  await writeFile(join(directory, 'go'), '')
  assert.equal(await waiting, 'Bearer late|')
  const answer = await transport.send(probe, never)
  assert.equal('body' in answer && answer.body, 'Bearer late|')
  assert.deepEqual(impersonated, [undefined, undefined, 'alice', 'alice'])
  await eventually('the anonymous connection is closed', () => server.open() === 1)
  assert.deepEqual(logger.lines, [])
})

test('while an exec plugin fails at the start, probes are sent anonymously, with one log line until it works', async (t) => {
  const { transport, clock, logger, directory } = await setUp(t, echo, async (directory) => {
    const script = join(directory, 'plugin.sh')
    await writeFile(
      script,
      `[ -e ${directory}/go ] || exit 1
       printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"late"}}'`,
    )
    return `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}] }`
  })
  const probed = async (): Promise<unknown> => {
    const answer = await transport.send(probe, never)
    return 'body' in answer && answer.body
  }
  for (let i = 0; i < 3; i++) {
    assert.equal(await probed(), '|')
    await clock.advance(1_000)
  }
  await assert.rejects(ask(transport), (error) => isKubeError(error, 'NoCredentials'))
  await writeFile(join(directory, 'go'), '')
  await clock.advance(1_000)
  assert.equal(await probed(), 'Bearer late|')
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message}`),
    [
      'warn no credentials are available yet; until then only the readiness of the API server is read, anonymously',
      'info credentials can be read again',
    ],
  )
})

test('closing ends an anonymous probe', async (t) => {
  const { transport, server } = await setUp(
    t,
    () => {},
    () => 'exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "false" }',
  )
  const probed = assert.rejects(transport.send(probe, never), (error) => isKubeError(error, 'Unreachable'))
  await eventually('it is asked', () => server.asked.length === 1)
  await transport.close()
  await probed
})

test('a rotated client certificate leads to new connections; the old ones close when their watch has ended', async (t) => {
  const ends: (() => void)[] = []
  const listener: RequestListener = (request, response) => {
    if (request.url !== '/watch') return echo(request, response)
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
    ends.push(() => response.end('{"a":1}\n'))
  }
  const { directory, server, clock, transport, logger } = await setUp(t, listener, async (directory) => {
    await writePair(directory, 'client-1')
    return 'client-certificate: client.crt, client-key: client.key'
  })
  const watch = await transport.send({ ...request, path: '/watch', stream: true }, never)
  assert.equal(await bodyFrom(transport), '|client-1')

  // Between the writes of its two files a rotated pair does not match, and the old pair stays in use.
  await writeFile(join(directory, 'client.crt'), certificate('client-2.crt'))
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), '|client-1')
  await writePair(directory, 'client-2')
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), '|client-1')
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), '|client-2')
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['warn', 'info'],
  )

  assert.ok('stream' in watch)
  const seen = Array.fromAsync(watch.stream)
  ends[0]?.()
  assert.deepEqual(await seen, [{ a: 1 }])
  await eventually('only new connections are open', () => server.open() === 1)
})

test('closing ends requests on old and new connections', async (t) => {
  const shownBy: string[] = []
  const { directory, server, clock, transport } = await setUp(
    t,
    (request) => {
      shownBy.push(shown(request))
    },
    async (directory) => {
      await writePair(directory, 'client-1')
      return 'client-certificate: client.crt, client-key: client.key'
    },
  )
  const first = assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable'))
  await eventually('it is asked', () => server.asked.length === 1)
  await writePair(directory, 'client-2')
  await clock.advance(5_000)
  const second = assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable'))
  await eventually('it is asked', () => server.asked.length === 2)
  await clock.advance(1_000)
  const third = assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable'))
  await eventually('it is asked', () => shownBy.length === 3)
  assert.deepEqual(shownBy, ['|client-1', '|client-1', '|client-2'])
  await transport.close()
  await Promise.all([first, second, third])
  await assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable'))
  await eventually('all connections close', () => server.open() === 0)
})

test('a transport that is closed before its first request opens no connection', async (t) => {
  const { server, transport } = await setUp(t, echo, () => 'token: t')
  await transport.close()
  await assert.rejects(ask(transport), (error) => isKubeError(error, 'Unreachable'))
  assert.equal(server.connections(), 0)
})

test('a KubeConfig of client-node that a program has built can be used, with a time limit for its auth-provider', async (t) => {
  const server = await startServer(t, echo, { tls: mutualTls })
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'c', server: server.url.origin, skipTLSVerify: false, caFile: certificateFile('ca.crt') },
    { name: 'u', authProvider: { name: 'mine' } },
  )
  config.addAuthenticator({
    isAuthProvider: (user) => user.authProvider?.name === 'mine',
    applyAuthentication: async (_, options) => {
      options.headers = { ...options.headers, Authorization: 'Bearer own' }
    },
  })
  const transport = fromKubeConfig(config)
  t.after(() => transport.close())
  assert.equal(await bodyFrom(transport), 'Bearer own|')

  config.users = [{ name: 'u', authProvider: { name: 'hangs' } }]
  config.addAuthenticator({
    isAuthProvider: (user) => user.authProvider?.name === 'hangs',
    applyAuthentication: () => new Promise(() => {}),
  })
  const hanging = fromKubeConfig(config, { execTimeoutMs: 20 })
  t.after(() => hanging.close())
  await assert.rejects(ask(hanging), /^KubeError: .*auth-provider "hangs": no answer within 20 ms$/)
})

test('credentials are sent to the readiness URL only if no other server can receive them', async (t) => {
  const directory = await tempDir(t)
  const kubeconfig = join(directory, 'config')
  const withServer = async (server: string): Promise<Awaited<ReturnType<typeof loadKubeConfig>>> => {
    await writeFile(
      kubeconfig,
      `current-context: dev
clusters: [{ name: c, cluster: { server: "${server}", certificate-authority: ${certificateFile('ca.crt')} } }]
users: [{ name: u, user: { token: t, client-certificate: ${certificateFile('client-1.crt')}, client-key: ${certificateFile('client-1.key')} } }]
contexts: [{ name: dev, context: { cluster: c, user: u } }]`,
    )
    return loadKubeConfig({ kubeconfig, environment: {} })
  }
  const { access } = await withServer('https://cluster.example.test:6443/prefix')
  const sends = (url: string, from = access): boolean => readyzAccess(from, new URL(url), {}).user !== undefined
  assert.equal(sends('https://cluster.example.test:6443/readyz'), true)
  assert.equal(sends('https://127.0.0.1:6443/readyz'), true)
  assert.equal(sends('https://cluster.example.test/readyz'), false)
  assert.equal(sends('http://cluster.example.test:6443/readyz'), false)
  assert.equal(sends('https://192.0.2.1:6443/readyz'), false)
  assert.equal(sends('http://127.0.0.1:6443/readyz'), false)
  assert.equal(sends('https://127.0.0.1:6443/readyz', { ...access, skipVerify: true }), false)
  const plain = { ...access, server: new URL('http://cluster.example.test:6443') }
  assert.equal(sends('https://127.0.0.1:6443/readyz', plain), false)
  // The name of the cluster proves nothing about another server.
  const named = { ...access, serverName: 'cluster.example.test' }
  assert.equal(readyzAccess(named, new URL('https://192.0.2.1/readyz'), {}).serverName, undefined)
  const elsewhere = readyzAccess(access, new URL('https://192.0.2.1/readyz'), { HTTPS_PROXY: 'proxy:1' })
  assert.deepEqual(
    [elsewhere.clientCertificate, elsewhere.proxy?.host, elsewhere.server.pathname],
    [undefined, 'proxy:1', '/'],
  )

  // A server on this machine must have a certificate for the name of the cluster, and for no other.
  const local = await startServer(t, echo, { tls: { ...mutualTls, ...serverTls('cluster') } })
  const transportFor = async (server: string): Promise<Transport> => {
    const loaded = await withServer(server)
    const transport = fromKubeConfig(loaded.config, { access: readyzAccess(loaded.access, local.url, {}) })
    t.after(() => transport.close())
    return transport
  }
  assert.equal(await bodyFrom(await transportFor('https://cluster.example.test:6443')), 'Bearer t|client-1')
  assert.equal(await bodyFrom(await transportFor('https://192.0.2.1')), 'Bearer t|client-1')
  await assert.rejects(ask(await transportFor('https://other.example.test')), /for another name/)
})
