import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DrillScreen, DrillTimeline } from '../../src/commands/drill-output.ts'
import type { DrillEvent } from '../../src/drill/event.ts'

const clear = '\r\u001b[2K'
const kill: DrillEvent = { atMs: 5000, type: 'step', action: 'kill', masters: ['a'], text: 'kill a' }
const violation: DrillEvent = { atMs: 9000, type: 'violation', invariant: 'none-such', detail: 'a' }

function told(
  t: TestContext,
  { isTTY = false, ...options }: { isTTY?: boolean; runs?: number; live?: boolean; showsEvents?: boolean },
) {
  let text = ''
  const screen = new DrillScreen({ isTTY, columns: 40, write: (more: string) => (text += more) })
  const timeline = new DrillTimeline({
    screen,
    durationMs: 95_000,
    variants: ['lease (etcd)', 'none'],
    runs: 2,
    seed: 7,
    live: false,
    showsEvents: true,
    ...options,
  })
  t.after(() => timeline.end())
  return { timeline, text: () => text }
}

test('in the simulator the first run of each variant is told, and of the others what did not hold', (t) => {
  const { timeline, text } = told(t, {})
  for (const variant of ['lease (etcd)', 'none']) {
    for (const index of [0, 1]) {
      timeline.take(kill, { variant, index })
      timeline.take(violation, { variant, index })
    }
  }
  timeline.end()
  const lines = text().split('\n')
  assert.deepEqual(
    lines.filter((line) => /^\S/.test(line)).map((line) => line.replace(/: .*/, ': …')),
    [
      'lease (etcd), run 1 of 2, seed 7',
      'lease (etcd), run 2 of 2, seed 8: …',
      'none, run 1 of 2, seed 7',
      'none, run 2 of 2, seed 8: …',
    ],
  )
  assert.equal(text().match(/kill a/g)?.length, 2)
  assert.equal(text().match(/none-such/g)?.length, 4)
})

test('live, every run is told', (t) => {
  const { timeline, text } = told(t, { live: true })
  for (const index of [0, 1]) timeline.take(kill, { variant: 'none', index })
  timeline.end()
  assert.equal(text().match(/kill a/g)?.length, 2)
})

test('where only the report is wanted nothing is told', (t) => {
  const { timeline, text } = told(t, { showsEvents: false })
  timeline.take(kill, { variant: 'none', index: 0 })
  timeline.end()
  assert.equal(text(), '')
})

test('on a terminal the progress stands below the lines, no wider than it, and goes at the end', () => {
  let text = ''
  const screen = new DrillScreen({ isTTY: true, columns: 12, write: (more: string) => (text += more) })
  screen.progress('0s of 95s')
  screen.progress('0s of 95s')
  screen.line('a line')
  screen.progress('a longer progress')
  screen.end()
  screen.end()
  assert.equal(text, `${clear}0s of 95s${clear}a line\n0s of 95s${clear}a longer p…${clear}`)
})

test('elsewhere there is no progress', () => {
  let text = ''
  const screen = new DrillScreen({ write: (more: string) => (text += more) })
  screen.progress('0s of 95s')
  screen.line('a line')
  screen.end()
  assert.equal(text, 'a line\n')
})
