import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import { KubeError } from '../../src/kube/errors.ts'
import { authProvider, type Grant, planRenewal, Renewal, refreshIdToken } from '../../src/kube/kube-config-renewal.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { withoutSecrets } from '../../src/telemetry/secrets.ts'
import { startServer } from './loopback-server.ts'

const startMs = 1_000_000_000
const second = 1_000
const minute = 60 * second
const hour = 60 * minute

for (const [life, aheadMs] of [
  [10 * hour, 10 * minute],
  [hour, 10 * minute],
  [10 * minute, 2 * minute],
  [5 * minute, minute],
  [minute, 30 * second],
  [3 * second, 1.5 * second],
] as const) {
  test(`a grant of ${life / second} s is renewed ${aheadMs / second} s before it expires`, () => {
    assert.equal(planRenewal({ expiresMs: startMs + life, isNewer: true, nowMs: startMs }), startMs + life - aheadMs)
  })
}

test('a grant that is no newer is retried after a quarter of its remaining life, within one second to one minute', () => {
  const after = (leftMs: number): number =>
    planRenewal({ expiresMs: startMs + leftMs, isNewer: false, nowMs: startMs }) - startMs
  assert.deepEqual([10 * minute, 2 * minute, 40 * second, second, -hour].map(after), [
    minute,
    30_000,
    10_000,
    1_000,
    1_000,
  ])
})

test('a grant that has already expired on arrival is requested again after a second, not at once', () => {
  assert.equal(planRenewal({ expiresMs: startMs - hour, isNewer: true, nowMs: startMs }), startMs + second)
})

/** A renewal whose attempts end when the test ends them. */
function open(pollMs?: number) {
  const time = new VirtualClock({ startWallMs: startMs })
  const attempts: PromiseWithResolvers<Grant>[] = []
  let settled = 0
  const renewal = new Renewal({
    ask() {
      const attempt = Promise.withResolvers<Grant>()
      attempts.push(attempt)
      return attempt.promise
    },
    clock: time.view(),
    pollMs,
    onSettled: () => {
      settled += 1
    },
  })
  const give = (name: string, expiresMs?: number): void =>
    attempts.at(-1)?.resolve({ authorization: name, clientCertificate: undefined, expiresMs })
  const current = async (): Promise<string | undefined> => (await renewal.current()).authorization
  /** Like `current`, but rejects if it would wait. */
  const atOnce = (): Promise<string | undefined> => {
    const late = new Promise<never>((_, reject) => setImmediate(() => reject(new Error('it waits'))))
    return Promise.race([current(), late])
  }
  return { time, renewal, attempts, give, current, atOnce, settled: () => settled }
}

test('requests before the first grant all wait for the same grant', async () => {
  const { attempts, current, give } = open()
  const waiting = Promise.all([current(), current(), current()])
  give('one')
  assert.deepEqual(await waiting, ['one', 'one', 'one'])
  assert.equal(attempts.length, 1)
})

test('during a renewal, and when it fails or hangs past the expiry, the present grant is returned at once', async () => {
  const { time, renewal, attempts, current, atOnce, give, settled } = open()
  const first = current()
  give('one', startMs + 5 * minute)
  await first
  await time.advance(4 * minute - 1)
  assert.equal(await atOnce(), 'one')
  assert.equal(attempts.length, 1)
  await time.advance(1)
  for (let i = 0; i < 3; i++) assert.equal(await atOnce(), 'one')
  assert.equal(attempts.length, 2)

  attempts[1]?.reject(new KubeError('NoCredentials', 'away'))
  await time.advance(0)
  assert.match(String(renewal.failure), /away/)
  assert.equal(await atOnce(), 'one')
  await time.advance(15 * second)
  assert.equal(await atOnce(), 'one')
  assert.equal(attempts.length, 3)
  await time.advance(hour)
  assert.equal(await atOnce(), 'one', 'an expired token is used until the server refuses it')
  assert.equal(attempts.length, 3)

  give('two', startMs + 2 * hour)
  await time.advance(0)
  assert.equal(await atOnce(), 'two')
  assert.deepEqual([renewal.failure, settled()], [undefined, 3])
})

test('a plugin that returns its cached grant again is retried before the expiry, but not in a loop', async () => {
  const { time, attempts, current, give } = open()
  const first = current()
  give('one', startMs + 5 * minute)
  await first
  while (time.nowMs < 5 * minute) {
    await current()
    give('one', startMs + 5 * minute)
    await time.advance(500)
  }
  assert.ok(attempts.length > 10 && attempts.length < 20, `${attempts.length} attempts`)
})

test('an expired grant does not replace a valid one', async () => {
  const { time, renewal, attempts, give, current, atOnce } = open()
  const first = current()
  give('one', startMs + 10 * minute)
  await first
  await time.advance(9 * minute)
  assert.equal(await atOnce(), 'one')
  assert.equal(attempts.length, 2)
  give('over', startMs + minute)
  await turn()
  assert.equal(await atOnce(), 'one')
  assert.match(String(renewal.failure), /the new credentials have already expired$/)
  await time.advance(15 * second)
  assert.equal(await atOnce(), 'one')
  assert.equal(attempts.length, 3)
  give('two', startMs + hour)
  await turn()
  assert.equal(await atOnce(), 'two')
  await time.advance(2 * hour)
  assert.equal(await atOnce(), 'two')
  give('over too', startMs + hour + 1)
  await turn()
  assert.equal(await atOnce(), 'over too')
})

test('a grant without an expiry is used until a renewal is requested, or until the poll interval has passed', async () => {
  const endless = open()
  const first = endless.current()
  endless.give('one')
  await first
  await endless.time.advance(1_000 * hour)
  assert.equal(await endless.atOnce(), 'one')
  assert.equal(endless.attempts.length, 1)
  const renewed = endless.renewal.renew()
  endless.give('two')
  await renewed
  assert.equal(await endless.atOnce(), 'two')

  const polled = open(5 * second)
  const given = polled.current()
  polled.give('one')
  await given
  await polled.time.advance(5 * second)
  assert.equal(await polled.atOnce(), 'one')
  assert.equal(polled.attempts.length, 2)
})

test('before the first grant at most one is requested each second', async () => {
  const { time, attempts, current, atOnce } = open()
  const refused = assert.rejects(current(), /not yet/)
  attempts[0]?.reject(new KubeError('NoCredentials', 'not yet'))
  await refused
  await time.advance(999)
  await assert.rejects(atOnce(), /not yet/)
  assert.equal(attempts.length, 1)
  await time.advance(1)
  const next = assert.rejects(current(), /still not/)
  attempts[1]?.reject(new KubeError('NoCredentials', 'still not'))
  await next
})

test('the grant of an id-token expires when the token does', async () => {
  const nowMs = 1_000_000_000
  const payload = Buffer.from(JSON.stringify({ exp: nowMs / 1000 + 600 })).toString('base64url')
  const config = new KubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'c', server: 'https://192.0.2.1:6443' }],
    users: [{ name: 'u', authProvider: { name: 'oidc', config: { 'id-token': `e30.${payload}.signature` } } }],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  const clock = new VirtualClock({ startWallMs: nowMs }).view()
  const signal = new AbortController().signal
  const grant = await authProvider(config, { source: 'kubeconfig', timeoutMs: 1_000, clock, signal })(undefined)
  assert.equal(grant.authorization, `Bearer e30.${payload}.signature`)
  assert.equal(grant.expiresMs, nowMs + 600_000)
})

const { signal } = new AbortController()

/** A KubeConfig whose user has this auth-provider. */
function configWith(authProvider: object): KubeConfig {
  const config = new KubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'c', server: 'https://192.0.2.1:6443' }],
    users: [{ name: 'u', authProvider }],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  return config
}

/** An issuer on loopback with the token endpoint `endpoint`, and the Authorization headers that it received. */
async function startIssuer(t: TestContext, endpoint?: string) {
  const seen: (string | undefined)[] = []
  const issuer = await startServer(t, ({ url, headers }, response) => {
    if (url === '/token') {
      seen.push(headers.authorization)
      response.end(JSON.stringify({ id_token: 'e30.e30.signature', refresh_token: 'refresh-token-of-the-issuer' }))
    } else response.end(JSON.stringify({ token_endpoint: endpoint ?? `${issuer.url.origin}/token` }))
  })
  const settings = {
    ...{ 'client-id': 'a:b', 'client-secret': 'c/d of the test', 'refresh-token': 'refresh-token-of-the-kubeconfig' },
    'idp-issuer-url': issuer.url.origin,
  }
  return { seen, settings }
}

test('the issuer receives the client id and secret encoded; tokens and secrets are redacted from texts', async (t) => {
  const { seen, settings } = await startIssuer(t)
  const config = configWith({ name: 'oidc', config: settings })
  const clock = new VirtualClock().view()
  const grant = await authProvider(config, { source: 'kubeconfig', timeoutMs: 60_000, clock, signal })(undefined)
  assert.equal(grant.authorization, 'Bearer e30.e30.signature')
  assert.deepEqual(seen, [`Basic ${Buffer.from('a%3Ab:c%2Fd%20of%20the%20test').toString('base64')}`])
  const secrets = ['refresh-token-of-the-issuer', settings['refresh-token'], settings['client-secret']]
  for (const secret of secrets) assert.equal(withoutSecrets(`<${secret}>`), '<[redacted]>')
})

test('an issuer without TLS on another machine does not receive the refresh token', async (t) => {
  const { settings } = await startIssuer(t)
  await assert.rejects(refreshIdToken({ ...settings, 'idp-issuer-url': 'http://192.0.2.1/realm' }, signal), {
    message: 'the issuer http://192.0.2.1 does not use TLS; the refresh token is not sent',
  })
})

test('an id-token that is empty, or that no HTTP header can carry, is not used', async (t) => {
  for (const [token, reason] of [
    ['', 'the token_endpoint returned no id_token'],
    ['e30.e30.c2ln\n', 'returned a token that contains a character that no HTTP header may have'],
  ] as const) {
    const issuer = await startServer(t, (_, response) =>
      response.end(JSON.stringify({ token_endpoint: `${issuer.url.origin}/token`, id_token: token })),
    )
    const config = configWith({
      name: 'oidc',
      config: { 'client-id': 'c', 'refresh-token': 'r', 'idp-issuer-url': issuer.url.origin },
    })
    const clock = new VirtualClock().view()
    const ask = authProvider(config, { source: 'kubeconfig', timeoutMs: 60_000, clock, signal })
    await assert.rejects(ask(undefined), { message: `kubeconfig: auth-provider "oidc": ${reason}` })
  }
})

test('a token_endpoint without TLS elsewhere receives nothing, and the error names only its origin', async (t) => {
  const { settings } = await startIssuer(t, 'http://192.0.2.1/token?code=secret')
  await assert.rejects(refreshIdToken(settings, signal), {
    message: 'the token_endpoint http://192.0.2.1 does not use TLS; the refresh token is not sent',
  })
})

test('an answer of more than one MiB from an issuer is refused', async (t) => {
  const issuer = await startServer(t, (_, response) => void response.end(`${' '.repeat(1024 * 1024)}{}`))
  const settings = { 'client-id': 'c', 'refresh-token': 'r', 'idp-issuer-url': issuer.url.origin }
  await assert.rejects(refreshIdToken(settings, signal), /returned more than 1048576 bytes$/)
})

test('the error of an auth-provider that a program has added is one line without secrets', async () => {
  const config = configWith({ name: 'mine' })
  config.addAuthenticator({
    isAuthProvider: (user) => user.authProvider?.name === 'mine',
    applyAuthentication: () => Promise.reject(new Error(`first\nBearer abcdefgh ${'x'.repeat(300)}`)),
  })
  const clock = new VirtualClock().view()
  await assert.rejects(authProvider(config, { source: 'k', timeoutMs: 60_000, clock, signal })(undefined), {
    code: 'NoCredentials',
    message: `k: auth-provider "mine": first Bearer [redacted] ${'x'.repeat(176)}…`,
  })
})
