import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import { formatTime } from '../../src/runtime/time-format.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { withoutSecrets } from '../../src/telemetry/secrets.ts'
import { endReadingsOf, makeHangingFile } from '../support/hanging-file.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'
import { ask, bodyFrom, echo, kubeconfigOf, never, request, setUp, shown, writePair } from './kube-config-setup.ts'
import { bodyOf, certificate, serverTls, startServer } from './loopback-server.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const inline = (name: string): string =>
  `client-certificate-data: ${base64(certificate(`${name}.crt`))}, client-key-data: ${base64(certificate(`${name}.key`))}`

/** Answers 401, except to requests whose credentials are `accepted()`. */
function gate(accepted: () => string): RequestListener {
  return (request, response) => {
    response.statusCode = shown(request) === accepted() ? 200 : 401
    response.end(shown(request))
  }
}

test('the credentials of a request are redacted from texts after it was sent', async (t) => {
  const secret = 'secret-of-a-file-for-this-test'
  const basic = base64('alice:a-password-of-this-test')
  const [, line = ''] = certificate('client-2.key').split('\n')
  for (const [user, shown] of [
    ['tokenFile: token', secret],
    ['username: alice, password: a-password-of-this-test', basic],
    ['client-certificate: client.crt, client-key: client.key', line],
  ] as const) {
    assert.equal(withoutSecrets(`read ${shown}`), `read ${shown}`)
    const { transport } = await setUp(t, echo, async (directory) => {
      await writeFile(join(directory, 'token'), secret)
      await writePair(directory, 'client-2')
      return user
    })
    await ask(transport)
    assert.equal(withoutSecrets(`read ${shown}`), 'read [redacted]')
  }
})

test('a client certificate inside the kubeconfig is replaced when the file changes', async (t) => {
  const { clock, transport, write, logger } = await setUp(t, echo, () => inline('client-1'))
  assert.equal(await bodyFrom(transport), '|client-1')
  await write(inline('client-2'))
  for (const seen of ['|client-1', '|client-2']) {
    await clock.advance(1_000)
    assert.equal(await bodyFrom(transport), seen)
  }
  assert.deepEqual(logger.lines, [])
})

test('after a 401 a new token in the kubeconfig is used at once', async (t) => {
  let accepted = 'Bearer one|'
  const { transport, write, logger } = await setUp(
    t,
    gate(() => accepted),
    () => 'token: one',
  )
  assert.equal((await ask(transport)).status, 200)
  accepted = 'Bearer two|'
  await write('token: two')
  assert.equal((await ask(transport)).status, 200)
  assert.deepEqual(logger.lines, [], 'a successful rotation is not logged')
})

test('a series of 401s is logged once until it is over, and a token that is written meanwhile is used', async (t) => {
  let accepted = 'Bearer one|'
  const { transport, clock, write, logger } = await setUp(
    t,
    gate(() => accepted),
    () => 'token: one',
  )
  const statuses: number[] = []
  for (const step of ['works', 'refused', 'still', 'still', 'written', 'works'] as const) {
    if (step === 'refused') accepted = 'Bearer two|'
    if (step === 'written') await write('token: two')
    statuses.push((await ask(transport)).status)
    await clock.advance(1_000)
  }
  assert.deepEqual(statuses, [200, 401, 401, 401, 200, 200])
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message}`),
    [
      'warn the API server does not accept the credentials (401): write a newer token into the kubeconfig',
      'info the API server accepts the credentials again',
    ],
  )
})

test('a 401 for a token that claims to expire in the year 33658 is returned, and logged without the expiry', async (t) => {
  const payload = Buffer.from(JSON.stringify({ exp: 999_999_999_999 })).toString('base64url')
  const { transport, logger } = await setUp(
    t,
    (_, response) => response.writeHead(401).end(),
    () => `token: e30.${payload}.c2ln`,
  )
  assert.equal((await ask(transport)).status, 401)
  const [line = assert.fail()] = logger.lines
  assert.match(line.message, /does not accept the credentials/)
  assert.equal('ends' in line.fields, false)
})

const remedies: readonly (readonly [user: (directory: string) => string, remedy: (directory: string) => string])[] = [
  [(directory) => `tokenFile: ${directory}/token`, (directory) => `write a newer token to ${directory}/token`],
  [() => 'username: admin, password: x', () => 'write the right username and password into the kubeconfig'],
  [
    (directory) => `client-certificate: ${directory}/client.crt, client-key: ${directory}/client.key`,
    (directory) => `write a newer client certificate to ${directory}/client.crt`,
  ],
  [() => inline('client-1'), () => 'write a newer client certificate into the kubeconfig'],
  [() => '', () => 'no credentials are configured; add some for the user of the context to the kubeconfig'],
]
for (const [user, remedy] of remedies) {
  test(`the log line about a 401 names the remedy: ${remedy('DIR')}`, async (t) => {
    const { directory, transport, logger } = await setUp(t, (_, response) => response.writeHead(401).end(), prepared)
    await ask(transport)
    const [line] = logger.lines
    assert.equal(line?.message, `the API server does not accept the credentials (401): ${remedy(directory)}`)
    async function prepared(into: string): Promise<string> {
      await writeFile(`${into}/token`, 'one')
      await writePair(into, 'client-1')
      return user(into)
    }
  })
}

test('requests that are alternately accepted and refused with 401 cause a single log line', async (t) => {
  let asked = 0
  const { transport, clock, logger } = await setUp(
    t,
    (_, response) => {
      response.writeHead(asked++ % 2 === 0 ? 401 : 200).end()
    },
    () => 'token: one',
  )
  for (let i = 0; i < 20; i++) {
    await ask(transport)
    await clock.advance(1_000)
  }
  assert.equal(logger.lines.length, 1)
})

const damaged: [what: string, text: (origin: string) => string | undefined][] = [
  ['is gone', () => undefined],
  ['is empty', () => ''],
  ['is half written', (origin) => kubeconfigOf(origin, 'token: two').slice(0, -80)],
  ['is not valid YAML', (origin) => `${kubeconfigOf(origin, 'token: two')}\n\t- {`],
  ['names a missing user', (origin) => kubeconfigOf(origin, 'token: two').replace('name: u,', 'name: v,')],
  ['has only another context', (origin) => kubeconfigOf(origin, 'token: two').replaceAll('dev', 'prod')],
  ['is for another server', () => kubeconfigOf('https://192.0.2.1:6443', 'token: two')],
  ['is for another path of the server', (origin) => kubeconfigOf(`${origin}/other`, 'token: two')],
  ['is for a server without TLS', (origin) => kubeconfigOf(origin.replace('https:', 'http:'), 'token: two', '')],
  ['has a damaged authority', (origin) => kubeconfigOf(origin, 'token: two', 'certificate-authority-data: AAAA')],
]
for (const [what, text] of damaged) {
  test(`a kubeconfig that ${what} leaves the previous credentials in use, with one warning`, async (t) => {
    const { transport, clock, server, kubeconfig, write, logger } = await setUp(t, echo, () => 'token: one')
    assert.equal(await bodyFrom(transport), 'Bearer one|')
    const content = text(server.url.origin)
    await (content === undefined ? rm(kubeconfig) : writeFile(kubeconfig, content))
    for (let i = 0; i < 4; i++) {
      await clock.advance(1_000)
      assert.equal(await bodyFrom(transport), 'Bearer one|')
    }
    assert.deepEqual(
      logger.lines.map(({ level }) => level),
      ['warn'],
    )
    assert.doesNotMatch(JSON.stringify(logger.lines), /two/)
    await write('token: three')
    for (const seen of ['one', 'three']) {
      await clock.advance(1_000)
      assert.equal(await bodyFrom(transport), `Bearer ${seen}|`)
    }
    assert.deepEqual(
      logger.lines.map(({ level }) => level),
      ['warn', 'info'],
    )
  })
}

for (const [what, content] of [
  ['is missing', undefined],
  ['is damaged', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'],
] as const) {
  test(`while the file of a new authority ${what}, the token file of the previous kubeconfig is still read again`, async (t) => {
    const { transport, clock, server, directory, kubeconfig, logger } = await setUp(t, echo, async (into) => {
      await writeFile(`${into}/token`, 'one')
      return `tokenFile: ${into}/token`
    })
    assert.equal(await bodyFrom(transport), 'Bearer one|')
    const other = `${directory}/other.crt`
    if (content !== undefined) await writeFile(other, content)
    const text = kubeconfigOf(server.url.origin, `tokenFile: ${directory}/token`, `certificate-authority: ${other}`)
    await writeFile(kubeconfig, text)
    for (let i = 0; i < 2; i++) {
      await clock.advance(1_000)
      assert.equal(await bodyFrom(transport), 'Bearer one|')
    }
    await writeFile(`${directory}/token`, 'two')
    await clock.advance(1_000)
    await bodyFrom(transport)
    await clock.advance(1_000)
    assert.equal(await bodyFrom(transport), 'Bearer two|')
    assert.deepEqual(
      logger.lines.map(({ level }) => level),
      ['warn'],
    )
    await writeFile(other, certificate('ca.crt'))
    for (let i = 0; i < 2; i++) {
      await clock.advance(1_000)
      assert.equal(await bodyFrom(transport), 'Bearer two|')
    }
    assert.deepEqual(
      logger.lines.map(({ level }) => level),
      ['warn', 'info'],
    )
  })
}

test('a change of current-context has no effect: the context of the start stays in use', async (t) => {
  const { transport, clock, server, kubeconfig } = await setUp(t, echo, () => 'token: one')
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  const other = `clusters: [{ name: c, cluster: { server: "${server.url.origin}" } }]
users: [{ name: u, user: { token: two } }, { name: w, user: { token: wrong } }]
contexts: [{ name: dev, context: { cluster: c, user: u } }, { name: prod, context: { cluster: c, user: w } }]
current-context: prod`
  await writeFile(
    kubeconfig,
    other.replace('{ server', `{ certificate-authority-data: ${base64(certificate('ca.crt'))}, server`),
  )
  for (const seen of ['one', 'two']) {
    await clock.advance(1_000)
    assert.equal(await bodyFrom(transport), `Bearer ${seen}|`)
  }
})

/** A certificate authority of a kubeconfig with these certificates. */
const authorityOf = (...names: readonly string[]): string =>
  `certificate-authority-data: ${base64(names.map(certificate).join(''))}`

test('after a change of the authority in the kubeconfig only the new authority is trusted', async (t) => {
  const { transport, clock, server, kubeconfig } = await setUp(t, echo, () => 'token: one')
  await ask(transport)
  const write = (authority: string): Promise<void> =>
    writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', authority))
  await write(authorityOf('other-ca.crt'))
  await clock.advance(1_000)
  await ask(transport)
  await clock.advance(1_000)
  await assert.rejects(ask(transport), /certificate/)
  await write(authorityOf('other-ca.crt', 'ca.crt'))
  await clock.advance(1_000)
  await assert.rejects(ask(transport), /certificate/)
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), 'Bearer one|')
})

test('while a new authority does not verify the server, only anonymous probes are sent', async (t) => {
  const user = `token: one, ${inline('client-1')}`
  const { transport, clock, server, logger, directory, kubeconfig } = await setUp(t, echo, () => user)
  const file = join(directory, 'ca.crt')
  await writeFile(file, certificate('ca.crt'))
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, user, `certificate-authority: ${file}`))
  const probed = async (): Promise<unknown> => {
    const answer = await transport.send({ ...request, mayBeAnonymous: true }, never)
    return 'body' in answer && answer.body
  }
  const reread = async (): Promise<void> => {
    for (let reading = 0; reading < 2; reading++) {
      await clock.advance(1_000)
      await ask(transport).catch(() => {})
    }
  }
  await reread()
  await writeFile(file, certificate('other-ca.crt'))
  await reread()
  for (let i = 0; i < 3; i++) {
    await assert.rejects(ask(transport), /certificate/)
    assert.equal(await probed(), '|')
  }
  await rm(file)
  assert.equal(await probed(), '|', 'the file of the new authority is not needed')
  await writeFile(file, certificate('ca.crt'))
  await reread()
  assert.equal(await probed(), 'Bearer one|client-1')
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message.split(':')[0]}`),
    [
      'warn the new certificate authority does not verify the certificate of the API server',
      'info the certificate authority verifies the certificate of the API server again',
    ],
  )
})

test('a probe is not sent either if no authority has ever verified the server', async (t) => {
  const { transport, server, kubeconfig, clock } = await setUp(t, echo, () => 'token: one')
  const other = `certificate-authority-data: ${base64(certificate('other-ca.crt'))}`
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', other))
  const probe = { ...request, mayBeAnonymous: true }
  await assert.rejects(transport.send(probe, never), /certificate/)
  await clock.advance(1_000)
  await assert.rejects(transport.send(probe, never), /certificate/)
  assert.deepEqual(server.asked, [])
})

for (const content of ['', certificate('ca.crt').replace(/M/g, 'N')]) {
  test(`a certificate authority file ${content === '' ? 'without a certificate' : 'of damaged ones'} does not replace the previous one`, async (t) => {
    const { transport, clock, server, logger, directory, kubeconfig } = await setUp(t, echo, () => 'token: one')
    const file = join(directory, 'ca.crt')
    await writeFile(file, certificate('ca.crt'))
    await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', `certificate-authority: ${file}`))
    await ask(transport)
    await writeFile(file, content)
    for (let i = 0; i < 4; i++) {
      await clock.advance(1_000)
      server.cut()
      await eventually('it is cut', () => server.open() === 0)
      assert.equal(await bodyFrom(transport), 'Bearer one|')
    }
    assert.deepEqual(
      logger.lines.map(({ level, message }) => `${level} ${message}`),
      ['warn credentials cannot be renewed; the previous ones stay in use'],
    )
  })
}

test('while the certificate authority file cannot be read, a token is still replaced', async (t) => {
  const { transport, clock, server, logger, directory, kubeconfig } = await setUp(t, echo, () => 'token: one')
  const [ca, token] = [join(directory, 'ca.crt'), join(directory, 'token')]
  await writeFile(ca, certificate('ca.crt'))
  await writeFile(token, 'one')
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, `tokenFile: ${token}`, `certificate-authority: ${ca}`))
  await clock.advance(1_000)
  await ask(transport)
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), 'Bearer one|')
  await rm(ca)
  await writeFile(token, 'two')
  for (let i = 0; i < 3; i++) {
    await clock.advance(1_000)
    await ask(transport)
  }
  assert.equal(await bodyFrom(transport), 'Bearer two|')
  await writeFile(ca, certificate('ca.crt'))
  await clock.advance(1_000)
  await ask(transport)
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message}`),
    ['warn credentials cannot be renewed; the previous ones stay in use', 'info credentials can be read again'],
  )
})

test('while a wrong authority replaces those of the system, only anonymous probes are sent', async (t) => {
  const authorities = getCACertificates('default')
  t.after(() => setDefaultCACertificates(authorities))
  setDefaultCACertificates([certificate('ca.crt')])
  const { transport, clock, server, kubeconfig } = await setUp(t, echo, () => 'token: one')
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', 'tls-server-name: 127.0.0.1'))
  for (let i = 0; i < 3; i++) {
    await clock.advance(1_000)
    await ask(transport)
  }
  server.cut()
  const other = `certificate-authority-data: ${base64(certificate('other-ca.crt'))}`
  await writeFile(kubeconfig, kubeconfigOf(server.url.origin, 'token: one', other))
  for (let i = 0; i < 2; i++) {
    await clock.advance(1_000)
    await ask(transport).catch(() => {})
  }
  await assert.rejects(ask(transport), /certificate/)
  const probed = await transport.send({ ...request, mayBeAnonymous: true }, never)
  assert.equal('body' in probed && probed.body, '|')
})

/** Sends requests while the kubeconfig is replaced with another text. In its own process, because it may block. */
const replacing = `
  import { writeFileSync } from 'node:fs'
  const { loadKubeConfig } = await import('${new URL('../../src/kube/kube-config.ts', import.meta.url)}')
  const { fromKubeConfig } = await import('${new URL('../../src/kube/kube-config-transport.ts', import.meta.url)}')
  const { VirtualClock } = await import('${new URL('../../src/runtime/virtual-clock.ts', import.meta.url)}')
  const [kubeconfig, next] = process.argv.slice(1)
  const { config, access, reload } = await loadKubeConfig({ kubeconfig, environment: {} })
  const clock = new VirtualClock()
  const transport = fromKubeConfig(config, { access, reload, clock: clock.view() })
  for (const when of ['before', 'after', 'later']) {
    const sent = transport.send({ method: 'GET', path: '/', query: [], headers: {} }, new AbortController().signal)
    if (when !== 'before') await clock.advance(1_000)
    console.log(when, (await sent).body)
    if (when === 'before') writeFileSync(kubeconfig, next)
    await clock.advance(1_000)
  }
`
for (const [user, what] of [
  ['token: two', 'a token'],
  ['exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: echo }', 'an exec plugin'],
] as const) {
  test(`a kubeconfig with a hanging authority file and ${what} does not block the program`, {
    timeout: 60_000,
  }, async (t) => {
    const { directory, kubeconfig, server } = await setUp(t, echo, () => 'token: one')
    const ca = join(directory, 'ca.crt')
    makeHangingFile(ca)
    const next = kubeconfigOf(server.url.origin, user, `certificate-authority: ${ca}`)
    const child = await spawnChild(t, process.execPath, ['--input-type=module', '-e', replacing, kubeconfig, next])
    await child.output(/later Bearer one\|\n/, 20_000)
    assert.equal(child.stdout(), 'before Bearer one|\nafter Bearer one|\nlater Bearer one|\n')
  })
}

test('while there are no credentials and the authority file hangs, probes do not block the reading of other files', {
  timeout: 60_000,
}, async (t) => {
  const directory = await tempDir(t)
  const kubeconfig = join(directory, 'config')
  const ca = join(directory, 'ca.crt')
  const token = join(directory, 'token')
  await writeFile(ca, certificate('ca.crt'))
  await writeFile(token, 'one')
  const authority = `certificate-authority: ${ca}`
  await writeFile(kubeconfig, kubeconfigOf('https://127.0.0.1:1', `tokenFile: ${token}`, authority))
  const { config, access, reload } = await loadKubeConfig({ kubeconfig, environment: {} })
  await writeFile(token, '')
  await rm(ca)
  makeHangingFile(ca)
  const clock = new VirtualClock()
  const transport = fromKubeConfig(config, { access, reload, clock: clock.view() })
  t.after(() => transport.close())
  try {
    for (let probes = 0; probes < 6; probes++) {
      const given = new AbortController()
      const sent = assert.rejects(transport.send({ ...request, mayBeAnonymous: true }, given.signal), /too late/)
      await clock.advance(2_000)
      given.abort(new Error('too late'))
      await sent
    }
    assert.match(await withTimeout(readFile(kubeconfig, 'utf8'), 10_000, 'another file'), /^current-context/)
  } finally {
    await endReadingsOf(ca)
  }
})

test('a context without a user trusts only the new authority after a change of the authority', async (t) => {
  const { transport, clock, server, kubeconfig } = await setUp(t, echo, () => 'token: one')
  const withoutUser = (ca?: string): string => kubeconfigOf(server.url.origin, '', ca).replace(', user: u }', ' }')
  await writeFile(kubeconfig, withoutUser())
  await ask(transport)
  await clock.advance(1_000)
  assert.equal(await bodyFrom(transport), '|')
  const change = async (authority: string): Promise<void> => {
    await writeFile(kubeconfig, withoutUser(authority))
    for (let reading = 0; reading < 2; reading++) {
      await clock.advance(1_000)
      await ask(transport).catch(() => {})
    }
  }
  await change(authorityOf('other-ca.crt'))
  await assert.rejects(ask(transport), /certificate/)
  await change(authorityOf('other-ca.crt', 'ca.crt'))
  assert.equal(await bodyFrom(transport), '|')
})

/**
 * An exec plugin that returns tokens 1, 2, …, each valid for five minutes. From the second one on it waits for the file
 * `go`.
 */
function slowPlugin(startWallMs: number) {
  return async (directory: string): Promise<string> => {
    const script = join(directory, 'plugin.sh')
    const ends = (number: string): string => formatTime(startWallMs + Number(number) * 300_000)
    await writeFile(
      script,
      `echo run >>${directory}/log
       number=$(($(wc -l <${directory}/log)))
       while [ $number -gt 1 ] && ! [ -e ${directory}/go ]; do sleep 0.02; done
       case $number in 1) ends=${ends('1')};; *) ends=${ends('2')};; esac
       printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"%s"}}' $number $ends`,
    )
    return `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}] }`
  }
}
const startWallMs = 1_767_225_600_000
const runs = (directory: string): number =>
  existsSync(join(directory, 'log')) ? readFileSync(join(directory, 'log'), 'utf8').split('\n').length - 1 : 0

test('while an exec plugin is slow to renew a token, requests use the one that is still valid', async (t) => {
  const { transport, clock, directory, logger } = await setUp(t, echo, slowPlugin(startWallMs))
  assert.equal(await bodyFrom(transport), 'Bearer 1|')
  await clock.advance(239_000)
  await bodyFrom(transport)
  assert.equal(runs(directory), 1)
  await clock.advance(1_000)
  for (let i = 0; i < 5; i++) {
    assert.equal(await bodyFrom(transport), 'Bearer 1|')
    await clock.advance(5_000)
  }
  await eventually('the plugin runs', () => runs(directory) === 2)
  await writeFile(join(directory, 'go'), '')
  await eventually('it is renewed', async () => (await bodyFrom(transport)) === 'Bearer 2|')
  assert.equal(runs(directory), 2)
  assert.deepEqual(logger.lines, [])
})

test('a request with a 401 waits one second for an exec plugin, which then continues in the background', async (t) => {
  let accepted = 'Bearer 1|'
  const { transport, clock, directory } = await setUp(
    t,
    gate(() => accepted),
    slowPlugin(startWallMs),
  )
  assert.equal((await ask(transport)).status, 200)
  accepted = 'Bearer 2|'
  const refused = ask(transport)
  await eventually('the plugin runs', () => runs(directory) === 2)
  await clock.advance(1_000)
  assert.equal((await refused).status, 401)
  assert.equal((await ask(transport)).status, 401, 'the next request does not wait')
  await writeFile(join(directory, 'go'), '')
  await eventually('it is accepted', async () => (await ask(transport)).status === 200)
  assert.equal(runs(directory), 2)
})

test('an exec plugin with provideClusterInfo receives the certificate authority', async (t) => {
  const { directory, transport } = await setUp(t, echo, async (directory) => {
    const script = join(directory, 'plugin.sh')
    await writeFile(script, `printf '%s' "$KUBERNETES_EXEC_INFO" >${directory}/info`)
    const exec = `apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}], provideClusterInfo: true`
    return `exec: { ${exec} }`
  })
  await assert.rejects(ask(transport), /returned output that is not JSON$/)
  const { spec } = JSON.parse(readFileSync(join(directory, 'info'), 'utf8'))
  assert.equal(spec.cluster['certificate-authority-data'], base64(certificate('ca.crt')))
})

test('an abort ends the wait of a request for its exec plugin', async (t) => {
  const { transport } = await setUp(
    t,
    echo,
    () => 'exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sleep, args: ["60"] }',
  )
  const controller = new AbortController()
  const waiting = transport.send(request, controller.signal)
  controller.abort('enough')
  await assert.rejects(waiting, (reason) => reason === 'enough')
})

test('closing ends a pending request to an issuer', async (t) => {
  const issuer = await startServer(t, () => {}, { tls: serverTls('loopback') })
  const { transport } = await setUp(
    t,
    echo,
    () =>
      `auth-provider: { name: oidc, config: { client-id: client, refresh-token: r, idp-issuer-url: "${issuer.url.origin}",
        idp-certificate-authority-data: ${base64(certificate('ca.crt'))} } }`,
  )
  const refused = assert.rejects(ask(transport), /auth-provider "oidc": the connection is closed$/)
  await eventually('the issuer is asked', () => issuer.asked.length === 1)
  await transport.close()
  await refused
  await eventually('nothing is left open', () => issuer.open() === 0)
})

test('when the token is removed from the kubeconfig, the exec plugin beside it is used', async (t) => {
  const { transport, clock, directory, write } = await setUp(t, echo, async (directory) => {
    return `token: own, ${await slowPlugin(startWallMs)(directory)}`
  })
  assert.equal(await bodyFrom(transport), 'Bearer own|')
  await write(await slowPlugin(startWallMs)(directory))
  await clock.advance(1_000)
  await eventually('the plugin is asked', async () => (await bodyFrom(transport)) === 'Bearer 1|')
})

/** The time on the clocks of the tests with an issuer, in seconds since the epoch. */
const nowSeconds = startWallMs / 1000

/** An issuer of id-tokens that live for ten minutes. It accepts each refresh token once, `refresh-1` first. */
async function startIssuer(t: TestContext) {
  const jwt = (exp: number, more: object = {}): string =>
    [{ alg: 'RS256' }, { iss: issuer.url.origin, aud: 'client', sub: 's', iat: nowSeconds, exp, ...more }, 'signature']
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.')
  const refreshed: string[] = []
  const issuer = await startServer(
    t,
    async (request, response) => {
      const { origin } = issuer.url
      response.setHeader('content-type', 'application/json')
      if (request.url === '/.well-known/openid-configuration') {
        const endpoints = { authorization_endpoint: `${origin}/auth`, token_endpoint: `${origin}/token` }
        return response.end(JSON.stringify({ issuer: origin, jwks_uri: `${origin}/keys`, ...endpoints }))
      }
      const token = new URLSearchParams(await bodyOf(request)).get('refresh_token') ?? ''
      const count = refreshed.push(token)
      if (token !== `refresh-${count}`) return response.writeHead(400).end('{"error":"invalid_grant"}')
      return response.end(
        JSON.stringify({
          access_token: 'a',
          token_type: 'Bearer',
          expires_in: 600,
          id_token: jwt(nowSeconds + 600 * (count + 1), { count }),
          refresh_token: `refresh-${count + 1}`,
        }),
      )
    },
    { tls: serverTls('loopback') },
  )
  const userWith = (expiresSeconds: number): string =>
    `auth-provider: { name: oidc, config: { client-id: client, client-secret: s, id-token: "${jwt(expiresSeconds)}",
      refresh-token: refresh-1, idp-issuer-url: "${issuer.url.origin}",
      idp-certificate-authority-data: ${base64(certificate('ca.crt'))} } }`
  return { refreshed, userWith }
}

/** Answers with the number of the id-token in the count of its issuer; 0 for the one in the kubeconfig. */
const countOfToken: RequestListener = (request, response) => {
  const [, payload = ''] = (request.headers.authorization ?? '').split('.')
  response.end(String(JSON.parse(Buffer.from(payload, 'base64url').toString()).count ?? 0))
}

test('the issuer renews an id-token in the background before it expires', async (t) => {
  const { refreshed, userWith } = await startIssuer(t)
  const user = userWith(nowSeconds + 600)
  const { transport, clock, logger } = await setUp(t, countOfToken, () => user, { startWallMs })
  assert.equal(await bodyFrom(transport), '0')
  await clock.advance(479_000)
  assert.equal(await bodyFrom(transport), '0')
  // A renewal sends two requests to the issuer. If it began too early, they have arrived by now.
  await sleep(300)
  assert.deepEqual(refreshed, [])
  for (const [index, renewed] of ['1', '2'].entries()) {
    await clock.advance(index === 0 ? 1_000 : 600_000)
    await eventually('it is renewed', async () => (await bodyFrom(transport)) === renewed)
  }
  // Each renewal uses the refresh token of the previous one.
  assert.deepEqual(refreshed, ['refresh-1', 'refresh-2'])
  assert.deepEqual(logger.lines, [])
})

test('two transports of one kubeconfig use each refresh token once', { timeout: 30_000 }, async (t) => {
  const { refreshed, userWith } = await startIssuer(t)
  const user = userWith(nowSeconds - 1)
  const { clock, kubeconfig } = await setUp(t, countOfToken, () => user, { startWallMs })
  const { config, access, reload } = await loadKubeConfig({ kubeconfig, environment: {} })
  const two = [1, 2].map(() => fromKubeConfig(config, { access, reload, clock: clock.view() }))
  t.after(() => Promise.all(two.map((transport) => transport.close())))
  assert.deepEqual(await Promise.all(two.map(bodyFrom)), ['1', '1'])
  await clock.advance(1_000_000)
  for (const transport of two) await eventually('it is renewed', async () => (await bodyFrom(transport)) === '2')
  assert.deepEqual(refreshed, ['refresh-1', 'refresh-2'])
})

for (const scheme of ['http:', 'ftp:']) {
  test(`a token endpoint with ${scheme} receives neither the refresh token nor the client secret`, async (t) => {
    const plain = await startServer(t, (_, response) => response.end('{"id_token":"a.b.c"}'))
    const issuer = await startServer(
      t,
      (_, response) => response.end(JSON.stringify({ token_endpoint: `${scheme}//${plain.url.host}/token` })),
      { tls: serverTls('loopback') },
    )
    const { transport } = await setUp(
      t,
      echo,
      () =>
        `auth-provider: { name: oidc, config: { client-id: client, client-secret: hunter22, refresh-token: refresh-1,
          idp-issuer-url: "${issuer.url.origin}", idp-certificate-authority-data: ${base64(certificate('ca.crt'))} } }`,
    )
    await assert.rejects(
      ask(transport),
      /auth-provider "oidc": the token_endpoint .* does not use TLS; the refresh token is not sent$/,
    )
    assert.deepEqual([issuer.asked.length, plain.asked], [1, []])
  })
}

test('a plugin that returns the same token with a later expiry has renewed it', async (t) => {
  const metrics = prometheusMetrics()
  const { transport, clock, directory } = await setUp(
    t,
    echo,
    async (directory) => {
      const script = join(directory, 'plugin.sh')
      await writeFile(
        script,
        `echo run >>${directory}/log
         ends=${formatTime(startWallMs + 300_000)}
         [ $(wc -l <${directory}/log) -eq 1 ] || ends=${formatTime(startWallMs + 900_000)}
         printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"%s"}}' $ends`,
      )
      return `exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [${script}] }`
    },
    { metrics },
  )
  const ends = async (): Promise<number> =>
    Number(/\{kind="token"\} (\d+)/.exec(await metrics.expose())?.[1]) * 1000 - startWallMs
  await ask(transport)
  assert.equal(await ends(), 300_000)
  await clock.advance(240_000)
  await eventually('it is renewed', async () => {
    await ask(transport)
    return (await ends()) === 900_000
  })
  await clock.advance(200_000)
  await ask(transport)
  assert.equal(runs(directory), 2)
})

test('a metric reports when the credentials expire', async (t) => {
  const metrics = prometheusMetrics()
  const { transport, clock, write } = await setUp(t, echo, () => inline('client-1'), { metrics })
  const samples = async (): Promise<string[]> =>
    [...(await metrics.expose()).matchAll(/^apiserver_bootstrap_credentials_\w+(\{.*)$/gm)].map(
      ([, sample = '']) => sample,
    )
  await ask(transport)
  const endsSeconds = Date.UTC(2120, 0, 1) / 1000
  const authority = `{kind="certificate-authority"} ${endsSeconds}`
  assert.deepEqual(await samples(), [`{kind="client-certificate"} ${endsSeconds}`, authority])
  const payload = Buffer.from(JSON.stringify({ exp: 4_000_000_000 })).toString('base64url')
  await write(`token: e30.${payload}.c2ln`)
  for (let i = 0; i < 2; i++) {
    await clock.advance(1_000)
    await ask(transport)
  }
  assert.deepEqual(await samples(), [authority, '{kind="token"} 4000000000'])
})

test('a certificate in use that expires soon causes one warning', async (t) => {
  const { transport, clock, logger } = await setUp(t, echo, () => inline('client-1'), {
    metrics: prometheusMetrics(),
    startWallMs: Date.UTC(2119, 11, 25) - 1,
  })
  await ask(transport)
  assert.equal(logger.lines.length, 0)
  await clock.advance(1_000)
  await ask(transport)
  await ask(transport)
  assert.deepEqual(
    logger.lines.map(({ fields, message }) => [fields.kind, message]),
    ['client-certificate', 'certificate-authority'].map((kind) => [
      kind,
      'a certificate expires soon and has not been renewed',
    ]),
  )
})
