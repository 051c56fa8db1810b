import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Child } from '../../../src/drill/live/child.ts'
import { settingsOf } from '../../../src/drill/live/sidecar-flags.ts'
import { lifeThatCounts, SidecarLife } from '../../../src/drill/live/sidecar-life.ts'
import { Watchdog } from '../../../src/drill/live/watchdog.ts'
import { scenario } from '../reports.ts'

/** A life of a process that does nothing until it is told to stop. */
async function startLife(t: TestContext, number: number): Promise<SidecarLife> {
  const watchdog = new Watchdog()
  const child = await Child.start('sleep', ['600'], watchdog)
  t.after(async () => {
    await child.kill()
    watchdog.close()
  })
  return new SidecarLife(child, number, settingsOf(scenario.fleet, [], {}))
}

test('a life runs once it is awake, but while it sleeps, and until it is told to stop', async (t) => {
  const life = await startLife(t, 1)
  assert.equal(life.running, false)
  life.awake = true
  assert.equal(life.running, true)
  life.signal('freeze')
  assert.deepEqual([life.running, life.frozen], [false, true])
  life.signal('thaw')
  assert.deepEqual([life.running, life.frozen], [true, false])
  life.signal('terminate')
  assert.deepEqual([life.running, life.stopping], [false, true])
  await life.child.exited
  assert.equal(life.child.ended, true)
})

test('where two lives overlap the one before counts until the next one works', async (t) => {
  const [before, next] = [await startLife(t, 1), await startLife(t, 2)]
  before.awake = true
  assert.equal(lifeThatCounts(next, before), before)
  next.awake = true
  assert.equal(lifeThatCounts(next, before), next)
  assert.equal(lifeThatCounts(undefined, before), undefined)
})

test('the next life counts when it has failed, and when the one before runs no more', async (t) => {
  const [before, next, failed] = [await startLife(t, 1), await startLife(t, 2), await startLife(t, 2)]
  before.awake = true
  await failed.child.kill()
  assert.equal(lifeThatCounts(failed, before), failed)
  before.signal('terminate')
  assert.equal(lifeThatCounts(next, before), next)
})
