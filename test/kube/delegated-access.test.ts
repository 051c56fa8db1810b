import assert from 'node:assert/strict'
import { test } from 'node:test'
import { delegatedAccess } from '../../src/kube/delegated-access.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../src/kube/transport.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const metrics = { verb: 'get', path: '/metrics' }

/** Access by an API server that knows the tokens in `users` and allows those in `allowed`. */
function setUp({ tokens = true } = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const state = {
    isAway: false,
    users: new Set(['alice', 'bob']),
    allowed: new Set(['alice']),
    denied: new Set<string>(),
    /** Further fields of the user in a TokenReview, or replacements of its name and groups. */
    more: {},
  }
  const reviews: ApiRequest[] = []
  const transport: Transport = {
    async send(request): Promise<ApiResponse> {
      reviews.push(request)
      await sleep(clock, 5)
      if (state.isAway) return { status: 500, headers: {}, body: 'away' }
      const { kind, apiVersion, spec } = request.body as {
        kind: string
        apiVersion: string
        spec: { token: string; user: string }
      }
      const status =
        kind === 'TokenReview'
          ? {
              authenticated: state.users.has(spec.token),
              user: { username: spec.token, groups: ['all'], ...state.more },
            }
          : { allowed: state.allowed.has(spec.user), denied: state.denied.has(spec.user) }
      return { status: 201, headers: {}, body: { kind, apiVersion, metadata: {}, spec, status } }
    },
    async close() {},
  }
  const logger = memoryLogger()
  const api = restKubeApi({ transport, clock, random: seededRandom(1, 'api') })
  const access = delegatedAccess({ api, tokens, clock, logger })
  const judge = (bearerToken: string | undefined, address = '192.0.2.1') =>
    access.authorize({ address, bearerToken, certificate: undefined }, metrics)
  /** Asks `perSecond` times a second for `seconds` seconds. Returns the different answers. */
  const scrape = async (token: string, seconds: number, perSecond: number): Promise<readonly number[]> => {
    const answers = new Set<number>()
    for (let count = 0; count < seconds * perSecond; count++) {
      void judge(token).then((answer) => answers.add(answer))
      await sleep(clock, 1000 / perSecond)
    }
    return [...answers]
  }
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    let isDone = false
    const done = work().finally(() => {
      isDone = true
    })
    // The caller gets a failure when time stands still.
    done.catch(() => {})
    while (!isDone) await time.advance(1000)
    return done
  }
  const specs = () => reviews.map(({ body }) => (body as { readonly spec: unknown }).spec)
  return { clock, access, state, reviews, specs, logger, judge, scrape, run }
}

test('a hundred scrapes a second cost at most a review a minute while nothing changes', async () => {
  const { reviews, scrape, run } = setUp()
  assert.deepEqual(await run(() => scrape('alice', 600, 100)), [200])
  assert.ok(reviews.length <= 10, `${reviews.length} reviews in ten minutes`)
})

test('granted and withdrawn rights take effect when the cached answers have expired', async () => {
  const { state, judge, scrape, run } = setUp()
  assert.equal(await run(() => judge('bob')), 403)
  state.allowed = new Set(['bob'])
  assert.equal(await run(() => judge('alice')), 403)
  await run(() => scrape('bob', 31, 1))
  assert.equal(await run(() => judge('bob')), 200)
  state.users.clear()
  assert.equal(await run(() => judge('bob')), 200)
  await run(() => scrape('bob', 121, 1))
  assert.equal(await run(() => judge('bob')), 401)
})

test('a user whom one authorizer denies is refused, even if another authorizer allows it', async () => {
  const { state, judge, run } = setUp()
  state.denied.add('alice')
  assert.equal(await run(() => judge('alice')), 403)
})

test('made-up tokens do not cause a review each, and do not lock out a known user', async () => {
  const { reviews, judge, scrape, run } = setUp()
  await run(() => judge('alice'))
  const answers = new Set<number>()
  const spray = async (): Promise<void> => {
    for (let second = 0; second < 600; second++) {
      for (let count = 0; count < 100; count++) {
        void judge(`made up ${second} ${count}`).then((answer) => answers.add(answer))
      }
      await scrape('alice', 1, 1)
    }
  }
  const sprayed = spray()
  const [seen] = await run(() => Promise.all([scrape('alice', 600, 1), sprayed]))
  assert.deepEqual(seen, [200])
  assert.deepEqual([...answers].sort(), [401, 429])
  assert.ok(reviews.length < 20 + 600 * 5 + 20, `${reviews.length} reviews in ten minutes`)
})

test('while the API server is away only a recently allowed user has access; loss and return are logged once each', async () => {
  const { state, logger, judge, run } = setUp()
  assert.equal(await run(() => judge('alice')), 200)
  state.isAway = true
  assert.equal(await run(() => judge('alice')), 200)
  for (const token of ['bob', 'carol']) assert.equal(await run(() => judge(token)), 401)
  assert.equal(await run(() => judge(undefined)), 401)
  state.isAway = false
  assert.equal(await run(() => judge('bob')), 403)
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['warn', 'info'],
  )
})

test('a cached answer does not apply to another user, other groups, another verb or another path', async () => {
  const { access, specs, run } = setUp()
  const [user, groups] = ['alice', ['admins']]
  const asked = [
    [{ user, groups }, metrics],
    [{ user, groups: [] }, metrics],
    [{ user: 'bob', groups }, metrics],
    [
      { user, groups },
      { ...metrics, verb: 'head' },
    ],
    [
      { user, groups },
      { ...metrics, path: '/readyz/etcd' },
    ],
  ] as const
  for (const [certificate, what] of [...asked, ...asked]) {
    const answer = await run(() =>
      access.authorize({ address: '192.0.2.1', bearerToken: undefined, certificate }, what),
    )
    assert.equal(answer, certificate.user === 'alice' ? 200 : 403)
  }
  assert.deepEqual(
    specs(),
    asked.map(([caller, nonResourceAttributes]) => ({ ...caller, nonResourceAttributes })),
  )
})

test('a user is authorized with all fields of the TokenReview, and a user without a name is refused', async () => {
  const { state, specs, judge, run } = setUp()
  state.more = { uid: '7', extra: { scopes: ['a', 'b'] } }
  assert.equal(await run(() => judge('alice')), 200)
  const user = { user: 'alice', uid: '7', groups: ['all'], extra: { scopes: ['a', 'b'] } }
  assert.deepEqual(specs().at(-1), { ...user, nonResourceAttributes: metrics })
  for (const username of ['', undefined]) {
    state.more = { username }
    state.users.add(`named ${username}`)
    assert.equal(await run(() => judge(`named ${username}`)), 401)
  }
})

test('the latest thousand answers are cached', async () => {
  const { clock, access, reviews, run } = setUp()
  const certificate = { user: 'alice', groups: [] }
  const ask = (number: number) =>
    access.authorize(
      { address: '192.0.2.1', bearerToken: undefined, certificate },
      { verb: 'get', path: `/readyz/${number}` },
    )
  await run(async () => {
    for (let number = 0; number <= 1000; number++) {
      assert.equal(await ask(number), 200)
      await sleep(clock, 200)
    }
    assert.deepEqual([await ask(1), reviews.length], [200, 1001])
    assert.deepEqual([await ask(0), reviews.length], [200, 1002])
  })
})

test('refused answers do not displace the accepted ones', async () => {
  const { clock, access, state, reviews, judge, run } = setUp()
  const certificate = { user: 'bob', groups: [] }
  assert.equal(await run(() => judge('alice')), 200)
  await run(async () => {
    for (let number = 0; number <= 1000; number++) {
      const what = { verb: 'get', path: `/readyz/${number}` }
      assert.equal(await access.authorize({ address: '192.0.2.1', bearerToken: undefined, certificate }, what), 403)
      assert.equal(await judge(`made up ${number}`), 401)
      await sleep(clock, 400)
    }
  })
  state.allowed.add('bob')
  assert.equal(await run(() => judge('bob')), 200)
  // Known callers need no token of the rate limit: the answer for Alice is old, but not gone.
  const before = reviews.length
  const answers = await run(() => {
    return Promise.all([...Array.from({ length: 50 }, (_, number) => judge(`more ${number}`)), judge('alice')])
  })
  assert.equal(answers.at(-1), 200)
  assert.equal(answers.filter((answer) => answer === 429).length, 30)
  assert.equal(reviews.length, before + 22)
})

test('a user without rights uses up neither the reviews of other users nor those of tokens', async () => {
  const { access, judge, run } = setUp()
  const ask = (user: string, path: string, uid: string) =>
    access.authorize(
      { address: '192.0.2.1', bearerToken: undefined, certificate: { user, groups: [], uid } as never },
      { verb: 'get', path },
    )
  const paths = Array.from({ length: 21 }, (_, number) => `/x${number}`)
  // The uid is another each time, but the user is not.
  const answers = await run(() => Promise.all([...paths.map((path) => ask('bob', path, path)), judge('alice')]))
  assert.deepEqual(answers, [...Array.from({ length: 20 }, () => 403), 429, 200])
})

test('made-up tokens from one address do not lock out a new token from another address', async () => {
  const { judge, reviews, run } = setUp()
  const spray = (address: string) => Array.from({ length: 100 }, (_, number) => judge(`${address} ${number}`, address))
  const answers = await run(() => Promise.all([...spray('192.0.2.7'), judge('alice', '192.0.2.8')]))
  assert.deepEqual([answers.at(-1), answers.filter((answer) => answer === 401).length], [200, 20])
  assert.equal(reviews.length, 22)
})

test('all users together cause a limited number of reviews, also users that are not remembered', async () => {
  const { access, reviews, run } = setUp()
  const ask = (user: string) =>
    access.authorize({ address: '192.0.2.1', bearerToken: undefined, certificate: { user, groups: [] } }, metrics)
  const users = Array.from({ length: 2000 }, (_, number) => `user ${number}`)
  const answers = await run(() => Promise.all(users.map(ask)))
  assert.equal(answers.filter((answer) => answer === 403).length, 80)
  assert.equal(reviews.length, 80)
})

test('if tokens are not accepted, a token is not reviewed, and a client certificate counts', async () => {
  const { access, reviews, judge, run } = setUp({ tokens: false })
  assert.deepEqual([await run(() => judge('alice')), reviews.length], [401, 0])
  const certificate = { user: 'alice', groups: [] }
  assert.equal(
    await run(() => access.authorize({ address: '192.0.2.1', bearerToken: 'bob', certificate }, metrics)),
    200,
  )
})
