import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { all, full, ip, only, openRounds, refusal, service } from './rounds-world.ts'

const [A, B] = ['10.96.0.1', '10.96.0.2']
const web = service('web', A)
const notAllocated = (name: string): string => `Cluster IP [IPv4]: ${name} is not allocated; repairing`
const leaked = (name: string): string =>
  `IPAddress: ${name} for Service default/gone appears to have leaked: cleaning up`

test('a round that finds all in sync sends no request; only a full round settles, counts as a pass and tidies up', async () => {
  const world = openRounds()
  world.store(web)
  world.hear(ip(A, 'web'))
  const age = 'apiserver_bootstrap_repair_last_pass_age_seconds{repair="cluster-ip"}'.replace(/[{}]/g, '\\$&')
  for (const work of [only(A), all]) {
    await world.round(work)
    assert.equal(world.settled(), false)
  }
  await world.round(full)
  assert.equal(world.settled(), true)
  await world.time.advance(10_000)
  await world.round(all)
  assert.equal(await world.counted(age), 10)
  assert.deepEqual([world.sent(), world.notes(), world.availability, await world.next()], [[], [], [], undefined])
})

test('a missing IPAddress is created after a live read and reported once, and its Service is read once more', async () => {
  const world = openRounds()
  world.store(web)
  let granted = 0
  world.granted = async () => ++granted > 0
  await world.round(only(A))
  assert.deepEqual(world.sent(), ['get web', `create ${A}`, 'get web'])
  assert.deepEqual(world.notes(), [notAllocated(A)])
  assert.equal(granted, 1)
  assert.equal(
    await world.counted('apiserver_bootstrap_repairs_total\\{repair="cluster-ip",reason="ClusterIPNotAllocated"\\}'),
    1,
  )
  assert.deepEqual([world.rounds.failure, world.availability, await world.next()], [undefined, [], undefined])
})

test('only what the live read confirms is written and reported', async () => {
  const world = openRounds()
  const [gone, changed, right] = [service('gone', A), service('changed', B), service('right', '10.96.0.3')]
  world.store(gone, changed, right)
  world.live.delete('default/gone')
  world.live.set('default/changed', service('changed', '10.96.0.9'))
  await world.round(only(A, B, '10.96.0.3'))
  assert.deepEqual(world.sent(), ['get gone', 'get changed', 'get right', 'create 10.96.0.3', 'get right'])
  assert.deepEqual(world.notes(), [notAllocated('10.96.0.3')])
})

test('beside a server that repairs by itself only full rounds report, after a live read and without a permit', async () => {
  const world = openRounds()
  world.mode = 'report'
  world.granted = () => assert.fail('asked')
  const C = '10.96.0.3'
  world.store(web, service('gone', B), service('older', C), service('younger', C))
  world.hear(ip(C, 'older'))
  world.live.delete('default/gone')
  for (const work of [only(A), only(C), all]) await world.round(work)
  assert.deepEqual([world.sent(), world.notes()], [[], []])
  await world.round(full)
  assert.deepEqual(world.sent(), ['get web', 'get gone'])
  assert.deepEqual(world.notes(), [
    `Cluster IP [IPv4]:${C} was assigned to multiple services; please recreate service`,
    `Cluster IP [IPv4]: ${A} is not allocated`,
  ])
  assert.equal(world.settled(), true)
})

test('without a permit no round writes, and only a full round reports', async () => {
  const world = openRounds()
  world.granted = async () => false
  world.store(web)
  for (const work of [only(A), all]) await world.round(work)
  assert.deepEqual([world.sent(), world.notes()], [[], []])
  await world.round(full)
  assert.deepEqual(world.sent(), ['get web'])
  assert.deepEqual(world.notes(), [`Cluster IP [IPv4]: ${A} is not allocated`])
})

test('an address whose IPAddress was just deleted is left to its server in every round', async () => {
  const world = openRounds()
  world.store(web)
  world.schedule.markDeleted(A)
  for (const work of [only(A), all, full]) await world.round(work)
  assert.deepEqual([world.sent(), world.notes()], [[], []])
  await world.time.advance(300)
  await world.round(only(A))
  assert.deepEqual(world.notes(), [notAllocated(A)])
  world.hear(ip(A, 'web'))
  world.schedule.markDeleted(B)
  world.hear(ip(B, 'gone'))
  await world.round(only(B))
  await world.time.advance(5_000)
  world.sent()
  await world.round(full)
  assert.deepEqual(
    world.sent().slice(-1),
    [`delete ${B}`],
    'an IPAddress that is back without a Service is deleted in a full round',
  )
})

test('an IPAddress that this process created is verified after a round over all addresses or over its own', async () => {
  const world = openRounds()
  world.store(web)
  await world.round(only(A))
  world.hear({ ...ip(A, 'web'), metadata: { ...ip(A, 'web').metadata, uid: 'made at 0' } } as never)
  world.forget(web, 'server')
  world.sent()
  await world.round(only(B))
  assert.equal(await world.next(), undefined)
  await world.round(all)
  assert.deepEqual(await world.next(), [A, 2_000])
  await world.round(only(A))
  assert.deepEqual(world.sent(), ['get web', `delete ${A}`])
})

describe('an IPAddress without its Service', () => {
  const orphan = ip(A, 'gone')

  test('is deleted in a full round that is scheduled five seconds after it was first found', async () => {
    const world = openRounds()
    world.hear(orphan)
    await world.round(only(A))
    await world.time.advance(4_999)
    await world.round(full)
    assert.deepEqual(world.sent(), [])
    await world.time.advance(1)
    for (const work of [only(A), all]) await world.round(work)
    assert.deepEqual(world.sent(), [], 'only a full round deletes')
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
    assert.deepEqual(world.notes(), [leaked(A)])
    assert.deepEqual((await world.next())?.[0], 'full, regular', 'the next full round is the scheduled one')
  })

  test('already counts as an orphan while it is younger than a request can last, and is deleted once it is old enough', async () => {
    const world = openRounds()
    world.hear(orphan)
    world.ages.set(A, 58_000)
    await world.round(full)
    assert.deepEqual(await world.next(), ['full, regular', 2_000])
    await world.time.advance(3_000)
    world.ages.set(A, 60_000)
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
  })

  test('that had its Service again in a full round starts its five seconds anew', async () => {
    const world = openRounds()
    const gone = service('gone', A)
    world.hear(orphan)
    await world.round(full)
    world.store(gone)
    await world.round(full)
    world.forget(gone, 'server')
    await world.time.advance(10_000)
    await world.round(full)
    assert.deepEqual(world.sent(), [])
    await world.time.advance(5_000)
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
  })

  test('still counts as an orphan after rounds over other addresses', async () => {
    const world = openRounds()
    world.hear(orphan)
    await world.round(only(A))
    await world.time.advance(3_000)
    for (const work of [only(B), all]) await world.round(work)
    await world.time.advance(2_000)
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
  })

  test('is not deleted if the server has its Service, or if it changed during the live read', async () => {
    const world = openRounds()
    world.hear(orphan)
    await world.round(full)
    await world.time.advance(5_000)
    world.live.set('default/gone', service('gone', A))
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone'])
    world.live.clear()
    world.before = async (request) => {
      if (request === 'get gone') world.hear(ip(A, 'gone', '2'))
    }
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone'])
    assert.deepEqual(world.notes(), [])
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
  })

  test('that is not due gets a later full round, also when another one is deleted in this round', async () => {
    const world = openRounds()
    world.hear(orphan)
    await world.round(only(A))
    assert.deepEqual(await world.next(), ['full, regular', 5_000])
    for (const name of [B, '10.96.0.3']) world.hear(ip(name, 'gone'))
    world.ages.set(B, 53_000).set('10.96.0.3', 50_000)
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
    assert.deepEqual(await world.next(), ['full', 7_000])
  })

  test('gets another full round in five seconds if only the live read of a full round shows that its holder is gone', async () => {
    const world = openRounds()
    world.store(web)
    world.hear(orphan)
    world.live.clear()
    await world.round(only(A))
    assert.deepEqual(world.sent(), ['get web', 'get gone'])
    assert.equal(
      await world.next(),
      undefined,
      'no further round is scheduled, because the watch will report the change',
    )
    await world.round(full)
    assert.deepEqual(world.sent(), ['get web', 'get gone'])
    assert.deepEqual(await world.next(), ['full, regular', 5_000])
    assert.deepEqual(world.notes(), [])
  })
})

describe('an address that another client repairs first', () => {
  /** The server refuses every create, because another client was faster. */
  function overtaken() {
    const world = openRounds()
    world.store(web)
    world.before = async (request) => {
      if (request.startsWith('create')) throw refusal('AlreadyExists')
    }
    return world
  }

  test('is retried at once and reported only after five seconds, and neither settles nor counts as a failure', async () => {
    const world = overtaken()
    await world.round(full)
    assert.deepEqual(world.notes(), [])
    assert.deepEqual([world.settled(), world.rounds.failure, world.availability], [false, undefined, []])
    assert.equal(await world.counted('apiserver_clusterip_repair_reconcile_errors_total'), 0)
    const [scope, delayMs = 0] = (await world.next()) ?? []
    assert.equal(scope, A)
    assert.ok(delayMs <= 2, `${delayMs} ms`)
    await world.time.advance(4_980)
    await world.round(only(A))
    assert.deepEqual(world.notes(), [])
    await world.time.advance(5_000 - world.time.nowMs)
    await world.round(only(A))
    assert.deepEqual(world.notes(), [notAllocated(A)])
    world.before = async () => {}
    await world.round(only(A))
    assert.equal(world.settled(), true)
  })

  for (const [last, round] of [
    ['a full round', full],
    ['its own round', only(A)],
  ] as const) {
    test(`starts its five seconds anew after ${last} that found it in sync`, async () => {
      const world = overtaken()
      await world.round(only(A))
      world.hear(ip(A, 'web'))
      await world.round(round)
      world.unhear(ip(A, 'web'))
      await world.time.advance(6_000)
      await world.round(only(A))
      assert.deepEqual(world.notes(), [])
      await world.time.advance(2_000)
      for (const work of [only(B), all, full]) await world.round(work)
      await world.time.advance(3_000)
      assert.deepEqual(world.notes(), [])
      await world.round(only(A))
      assert.deepEqual(
        world.notes(),
        [notAllocated(A)],
        'rounds of other addresses and failed rounds do not restart the five seconds',
      )
    })
  }

  test('is no finding if its IPAddress arrives during the live read', async () => {
    const world = overtaken()
    world.before = async (request) => {
      if (request === 'get web') world.hear(ip(A, 'web'))
    }
    await world.round(full)
    assert.deepEqual([world.sent(), world.notes(), world.settled()], [['get web'], [], true])
    assert.equal(await world.next(), undefined)
  })
})

describe('an address outside all ranges', () => {
  const note = `Cluster IP [IPv4]: ${A} is not within any configured Service CIDR; please recreate service`

  test('is reported only by a full round, which is scheduled in five seconds', async () => {
    const world = openRounds()
    world.store(web, service('other', B))
    world.outOfRange.add(A)
    await world.round(only(A, B))
    assert.deepEqual(world.notes(), [notAllocated(B)])
    assert.deepEqual(await world.next(), ['full, regular', 5_000])
    world.hear(ip(B, 'other'))
    await world.round(full)
    assert.deepEqual(world.notes(), [note])
    await world.round(only(A))
    assert.deepEqual(world.notes(), [])
    assert.ok(((await world.next())?.[1] ?? 0) > 100_000, 'the pass of the next interval')
  })

  test('gets another full round if another Service has the same address', async () => {
    const world = openRounds()
    world.store(web)
    world.outOfRange.add(A)
    await world.round(full)
    assert.deepEqual(world.notes(), [note])
    world.store(service('other', A))
    await world.round(only(A))
    assert.deepEqual(world.notes(), [])
    assert.deepEqual(await world.next(), ['full, regular', 5_000])
    world.outOfRange.clear()
    world.forget(service('other', A), 'server')
    world.hear(ip(A, 'web'))
    await world.round(full)
    world.outOfRange.add(A)
    await world.round(only(A))
    assert.deepEqual(world.notes(), [])
    assert.deepEqual(await world.next(), ['full', 5_000], 'the last full round found the address in range')
  })
})

test('a persisting finding is reported again by the regular pass of the interval and by no other round', async () => {
  const world = openRounds()
  world.store(service('older', A), service('younger', A))
  world.hear(ip(A, 'older'))
  await world.round(full)
  const note = `Cluster IP [IPv4]:${A} was assigned to multiple services; please recreate service`
  assert.deepEqual(world.notes(), [note])
  for (const work of [only(A), all, { ...full, regular: false }]) await world.round(work)
  assert.deepEqual(world.notes(), [])
  await world.round(full)
  assert.deepEqual(world.notes(), [note])
})

test('an IPAddress that a policy refuses is retried with delays that grow to ten seconds', async () => {
  const world = openRounds()
  world.store(web)
  world.before = async (request) => {
    if (request.startsWith('create')) throw refusal('Invalid')
  }
  const waits: number[] = []
  for (let tries = 0; tries < 12; tries++) {
    await world.round(only(A))
    const [scope, ms] = (await world.next()) ?? []
    assert.equal(scope, A)
    waits.push(ms ?? 0)
  }
  assert.deepEqual([waits[0], waits.at(-1)], [10, 10_000])
})
