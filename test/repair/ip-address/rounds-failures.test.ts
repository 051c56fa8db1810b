import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { all, full, ip, only, openRounds, refusal, service } from './rounds-world.ts'

const [A, B] = ['10.96.0.1', '10.96.0.2']
const web = service('web', A)
const failures = 'apiserver_clusterip_repair_reconcile_errors_total'
const source = 'ip-address-repair'
type World = ReturnType<typeof openRounds>

/** Refuses requests that begin with one of these words, from now on. */
function refusing(world: World, refused: Readonly<Record<string, Parameters<typeof refusal>[0]>>): void {
  world.before = async (request) => {
    for (const [begin, code] of Object.entries(refused)) if (request.startsWith(begin)) throw refusal(code)
  }
}

describe('a write that fails', () => {
  test('is reported and retried with growing delays; after a success the delays are short again', async () => {
    const world = openRounds()
    world.store(web)
    refusing(world, { create: 'ServerError' })
    await world.round(full)
    assert.equal(world.rounds.failure, 'ServerError it is')
    assert.deepEqual(world.availability, [`failed ${source}`])
    assert.equal(await world.counted(failures), 1)
    assert.equal(world.settled(), false)
    for (const delayMs of [2, 4, 8]) {
      assert.deepEqual(await world.next(), [A, delayMs])
      await world.round(only(A))
    }
    assert.equal(world.events.length, 1)
    assert.equal(await world.counted(failures), 4)
    world.availability.splice(0)
    world.before = async () => {}
    await world.round(only(A))
    assert.deepEqual(world.availability, [`succeeded ${source}`])
    assert.deepEqual([world.rounds.failure, world.settled()], [undefined, true])
    await world.round(full)
    assert.deepEqual(world.availability, [`succeeded ${source}`], 'once')
    assert.deepEqual(await world.next(), [A, 16], 'the next round is the scheduled one')
    refusing(world, { create: 'ServerError' })
    world.store(service('other', B))
    await world.round(only(B))
    assert.deepEqual(await world.next(), [B, 2])
  })

  test('remains a failure while other writes succeed, in any round', async () => {
    const world = openRounds()
    world.store(web, service('other', B))
    refusing(world, { [`create ${A}`]: 'Forbidden' })
    await world.round(full)
    assert.match(world.rounds.failure ?? '', /Forbidden/)
    await world.round(only(B))
    assert.match(world.rounds.failure ?? '', /Forbidden/)
    refusing(world, { [`create ${A}`]: 'ServerError' })
    await world.round(all)
    assert.match(world.rounds.failure ?? '', /ServerError/, 'the failure has the latest reason')
    assert.equal(world.settled(), false)
    world.before = async () => {}
    await world.round(all)
    assert.deepEqual([world.rounds.failure, world.settled()], [undefined, true])
  })

  test('is retried by one timer, however often it fails and for whatever reason it is checked', async () => {
    const world = openRounds()
    world.store(web)
    refusing(world, { create: 'Forbidden' })
    const ended = (async () => {
      for (;;) await world.rounds.round(await world.schedule.next(world.stop.signal), world.stop.signal)
    })().catch(() => {})
    for (let pass = 1; pass <= 100; pass++) {
      await world.time.advance(10_000)
      world.schedule.mark([A])
    }
    world.sent()
    await world.time.advance(60_000)
    const tries = world.sent().filter((request) => request.startsWith('create')).length
    assert.ok(tries >= 5 && tries <= 8, `${tries} tries in a minute`)
    world.stop.abort()
    await ended
  })

  test('determines the retry delay, and a write that conflicts does not', async () => {
    const world = openRounds()
    world.store(web, service('other', B))
    refusing(world, { [`create ${B}`]: 'Conflict', [`create ${A}`]: 'Forbidden' })
    await world.round(only(A, B))
    assert.deepEqual(world.sent().slice(2, 4), [`create ${B}`, `create ${A}`])
    assert.match(world.rounds.failure ?? '', /Forbidden/)
    assert.deepEqual(await world.next(), [[B, A].join(), 10])
    assert.deepEqual(world.notes(), [`Cluster IP [IPv4]: ${A} is not allocated; repairing`])
  })

  test('does not count as a repair, and neither does one that conflicts', async () => {
    const world = openRounds()
    world.store(web, service('other', B))
    refusing(world, { [`create ${A}`]: 'Conflict', [`create ${B}`]: 'ServerError' })
    await world.round(full)
    const repairs = 'apiserver_bootstrap_repairs_total\\{repair="cluster-ip",reason="ClusterIPNotAllocated"\\}'
    assert.equal(await world.counted(repairs), 0)
  })

  test('is no failure if its abort signal ended it', async () => {
    const world = openRounds()
    world.store(web)
    const reason = new Error('stop')
    for (const aborting of ['get', 'create']) {
      const stop = new AbortController()
      world.before = async (request) => {
        if (!request.startsWith(aborting)) return
        stop.abort(reason)
        throw refusal('Unreachable')
      }
      await assert.rejects(world.rounds.round(full, stop.signal), reason)
    }
    assert.deepEqual([world.rounds.failure, world.availability], [undefined, []])
    assert.equal(await world.next(), undefined)
  })
})

describe('a delete that fails', () => {
  /** An orphan that a full round tries to delete, but the server refuses. */
  async function undeleted(code: 'ServerError' | 'Conflict'): Promise<World> {
    const world = openRounds()
    world.hear(ip(A, 'gone'))
    await world.round(only(A))
    assert.deepEqual(await world.next(), ['full, regular', 5_000])
    refusing(world, { delete: code })
    await world.round(full)
    return world
  }

  test('is retried in a scheduled full round, and no other round settles', async () => {
    const world = await undeleted('ServerError')
    assert.equal(world.rounds.failure, 'ServerError it is')
    world.before = async () => {}
    for (const work of [only(A), only(B), all]) {
      await world.round(work)
      assert.deepEqual([world.settled(), world.rounds.failure], [false, 'ServerError it is'])
    }
    assert.deepEqual(await world.next(), ['full', 5_000])
    world.sent()
    await world.round(full)
    assert.deepEqual(world.sent(), ['get gone', `delete ${A}`])
    assert.deepEqual([world.settled(), world.rounds.failure], [true, undefined])
  })

  test('is no failure if another client changed the IPAddress', async () => {
    const world = await undeleted('Conflict')
    assert.deepEqual([world.rounds.failure, world.settled(), world.notes()], [undefined, true, []])
    assert.deepEqual(await world.next(), ['full', 5_000])
  })
})

describe('a check that fails as a whole', () => {
  for (const [what, refuse] of [
    ['the live read', (world: World) => refusing(world, { get: 'ServerError' })],
    ['the permit', (world: World) => Object.assign(world, { granted: () => Promise.reject(refusal('ServerError')) })],
  ] as const) {
    test(`because of ${what} is reported, and its addresses are checked again soon`, async () => {
      const world = openRounds()
      world.store(web, service('other', B))
      world.hear(ip(B, 'other'))
      refuse(world)
      await world.round(only(A, B))
      assert.equal(world.rounds.failure, 'ServerError it is')
      assert.deepEqual(world.availability, [`failed ${source}`])
      assert.equal(await world.counted(failures), 1)
      assert.deepEqual(world.notes(), [])
      await world.round(only(B))
      await world.round(only('10.96.0.3'))
      assert.equal(world.rounds.failure, 'ServerError it is')
      const [names, delayMs] = (await world.next()) ?? []
      assert.deepEqual(new Set(names?.split(',')), new Set(['', A, B]))
      assert.equal(delayMs, 2)
    })
  }

  test('is over when the retry of the check succeeds, not when only its address is checked', async () => {
    const world = openRounds()
    world.store(web)
    refusing(world, { get: 'ServerError' })
    await world.round(only(A))
    world.before = async () => {}
    world.sent()
    await world.round(only(A))
    assert.deepEqual(world.sent(), ['get web', `create ${A}`, 'get web'])
    assert.equal(world.rounds.failure, 'ServerError it is', 'a check of the address does not clear the failure')
    assert.deepEqual(await world.next(), [`,${A}`, 2])
    await world.round(only(''))
    assert.equal(world.rounds.failure, undefined)
    refusing(world, { get: 'ServerError' })
    world.store(service('other', B))
    await world.round(only(B))
    await world.round(only(''))
    assert.equal(world.rounds.failure, 'ServerError it is', 'its address is not checked yet')
    world.before = async () => {}
    await world.round(only(B))
    assert.equal(world.rounds.failure, undefined)
  })

  test('is retried as a regular full pass, after 2 ms and not after five seconds', async () => {
    const world = openRounds()
    world.store(web)
    world.schedule.passAfter(0)
    assert.deepEqual(await world.next(), ['full, regular', 0])
    refusing(world, { get: 'ServerError' })
    await world.round(full)
    assert.deepEqual([world.settled(), world.rounds.failure], [false, 'ServerError it is'])
    assert.deepEqual(await world.next(), ['full, regular', 2])
    world.before = async () => {}
    await world.round(full)
    assert.deepEqual([world.settled(), world.rounds.failure], [true, undefined])
  })

  test('after its writes settles only in the next full round', async () => {
    const world = openRounds()
    world.store(web)
    let reads = 0
    world.before = async (request) => {
      if (request === 'get web' && ++reads === 2) throw refusal('Timeout')
    }
    await world.round(full)
    assert.deepEqual(world.sent(), ['get web', `create ${A}`, 'get web'])
    assert.deepEqual([world.settled(), world.rounds.failure], [false, 'Timeout it is'])
    world.hear(ip(A, 'web'))
    await world.round(only(A))
    assert.equal(world.settled(), false)
    await world.round(full)
    assert.deepEqual([world.settled(), world.rounds.failure], [true, undefined])
  })
})
