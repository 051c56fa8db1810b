import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IpAddressSchedule } from '../../../src/repair/ip-address/schedule.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'

function schedule() {
  const time = new VirtualClock()
  return {
    time,
    schedule: new IpAddressSchedule({ clock: time.view(), random: { next: () => 0 }, intervalMs: 180_000 }),
  }
}

test('an address whose IPAddress was deleted is left to its server for 150 to 300 ms, whenever another was deleted', async () => {
  const { time, schedule: work } = schedule()
  work.markReleased('10.96.0.1')
  await time.advance(140)
  work.markReleased('10.96.0.2')
  await time.advance(145)
  assert.deepEqual([work.isReleased('10.96.0.1'), work.isReleased('10.96.0.2')], [true, true])
  await time.advance(20)
  assert.deepEqual([work.isReleased('10.96.0.1'), work.isReleased('10.96.0.2')], [false, false])
  const { signal } = new AbortController()
  const [{ names }] = await Promise.all([work.next(signal), time.advance(100)])
  assert.deepEqual([...names], ['10.96.0.1', '10.96.0.2'])
  work.end()
})
