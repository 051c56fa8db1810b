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
  const said = () => logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)
  return { time, logger, outages, present, absent, said }
}

test('without an outage a symptom gets a line when it begins and one when it ends', () => {
  const { logger, present, absent, said } = setUp()
  for (let times = 0; times < 3; times++) present()
  for (let times = 0; times < 3; times++) absent()
  assert.deepEqual(said(), ['not ready', 'ready'])
  const never = noOutages.symptom()
  never.present(logger, {}, 'refused')
  noOutages.consequence(logger, {}, 'late')
  assert.deepEqual(said().slice(2), ['refused', 'late'])
})

test('a symptom that comes and goes in an outage, or goes soon after it, gets no line of its own', async () => {
  const { time, outages, present, absent, said } = setUp()
  outages.begin()
  present()
  absent()
  present()
  outages.end()
  await time.advance(4_900)
  present()
  absent()
  assert.deepEqual(said(), [])
  assert.deepEqual(outages.takeHidden(), { 'not ready': { times: 2 } })
  assert.equal(outages.takeHidden(), undefined)
})

test('a symptom that outlasts the outage by five seconds gets its line then', async () => {
  const { time, outages, present, absent, said } = setUp()
  outages.begin()
  present()
  outages.end()
  await time.advance(5_000)
  present()
  absent()
  assert.deepEqual(said(), ['not ready', 'ready'])
})

test('a symptom that was logged before the outage is logged when it ends in it', () => {
  const { outages, present, absent, said } = setUp()
  present()
  outages.begin()
  absent()
  assert.deepEqual(said(), ['not ready', 'ready'])
})

test('what was hidden in an outage without lines is not counted in a later one', async () => {
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

test('a symptom that lasts is logged again after the time that its owner gives, and not before', async () => {
  const { time, logger, outages, said } = setUp()
  const symptom = outages.symptom({ againMs: 60_000 })
  for (let second = 0; second < 150; second++) {
    symptom.present(logger, {}, 'refused')
    await time.advance(1_000)
  }
  symptom.absent(logger, {}, 'accepted')
  assert.deepEqual(said(), ['refused', 'refused', 'refused', 'accepted'])
})
