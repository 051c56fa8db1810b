import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { noOutages, Outages } from '../../src/telemetry/outages.ts'

function setUp() {
  const time = new VirtualClock()
  const logger = memoryLogger()
  const outages = new Outages({ clock: time.view() })
  const symptom = outages.symptom()
  const present = () => symptom.present(logger, {}, 'not ready')
  const absent = () => symptom.absent(logger, {}, 'ready')
  const logged = () => logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)
  return { time, logger, outages, present, absent, logged }
}

test('outside an outage a symptom is logged once when it begins and once when it ends', () => {
  const { logger, present, absent, logged } = setUp()
  for (let times = 0; times < 3; times++) present()
  for (let times = 0; times < 3; times++) absent()
  assert.deepEqual(logged(), ['not ready', 'ready'])
  const never = noOutages.symptom()
  never.present(logger, {}, 'refused')
  noOutages.consequence(logger, {}, 'late')
  assert.deepEqual(logged().slice(2), ['refused', 'late'])
})

test('a symptom that appears and disappears during an outage or soon after it is not logged itself', async () => {
  const { time, outages, present, absent, logged } = setUp()
  outages.begin()
  present()
  absent()
  present()
  outages.end()
  await time.advance(4_900)
  present()
  absent()
  assert.deepEqual(logged(), [])
  assert.deepEqual(outages.takeHidden(), { 'not ready': { times: 2 } })
  assert.equal(outages.takeHidden(), undefined)
})

test('a symptom that lasts five seconds beyond the outage is then logged', async () => {
  const { time, outages, present, absent, logged } = setUp()
  outages.begin()
  present()
  outages.end()
  await time.advance(5_000)
  present()
  absent()
  assert.deepEqual(logged(), ['not ready', 'ready'])
})

test('the end of a symptom is logged during an outage if its beginning was logged before', () => {
  const { outages, present, absent, logged } = setUp()
  present()
  outages.begin()
  absent()
  assert.deepEqual(logged(), ['not ready', 'ready'])
})

test('symptoms hidden in one outage are not counted in a later one', async () => {
  const { time, outages, present } = setUp()
  outages.begin()
  present()
  outages.end()
  await time.advance(1_000)
  outages.begin()
  assert.deepEqual(Object.keys(outages.takeHidden() ?? {}), ['not ready'])
  outages.consequence(memoryLogger(), {}, 'late')
  outages.end()
  await time.advance(5_000)
  outages.begin()
  assert.equal(outages.takeHidden(), undefined)
})

test('a lasting symptom is logged again after againMs, and not before', async () => {
  const { time, logger, outages, logged } = setUp()
  const symptom = outages.symptom({ againMs: 60_000 })
  for (let second = 0; second < 150; second++) {
    symptom.present(logger, {}, 'refused')
    await time.advance(1_000)
  }
  symptom.absent(logger, {}, 'accepted')
  assert.deepEqual(logged(), ['refused', 'refused', 'refused', 'accepted'])
})
