import assert from 'node:assert/strict'
import { lstat, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DrillScreen, DrillTimeline, writeFiles } from '../../src/commands/drill-output.ts'
import type { DrillEvent } from '../../src/drill/event.ts'
import { tempDir } from '../support/temp-dir.ts'

const clear = '\r\u001b[2K'
const kill: DrillEvent = { atMs: 5000, type: 'step', action: 'kill', masters: ['a'], text: 'kill a' }
const violation = (invariant: string, detail = 'a'): DrillEvent => ({
  atMs: 9000,
  type: 'violation',
  invariant,
  detail,
})

function outputOf(
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

test('the simulator shows the first run of each variant in full, and of later runs only new violations', (t) => {
  const { timeline, text } = outputOf(t, { runs: 3 })
  for (const variant of ['lease (etcd)', 'none']) {
    for (const index of [0, 1, 2]) {
      timeline.take(kill, { variant, index })
      timeline.take(violation('none-such'), { variant, index })
      if (index > 0) timeline.take(violation('none-either'), { variant, index })
    }
  }
  timeline.end()
  const lines = text().split('\n')
  assert.deepEqual(
    lines.filter((line) => /^\S/.test(line)).map((line) => line.replace(/: .*/, ': …')),
    [
      'lease (etcd), run 1 of 3, seed 7',
      'lease (etcd), run 2 of 3, seed 8: …',
      'none, run 1 of 3, seed 7',
      'none, run 2 of 3, seed 8: …',
    ],
  )
  assert.equal(text().match(/kill a/g)?.length, 2)
  assert.equal(text().match(/none-such/g)?.length, 2)
  assert.equal(text().match(/none-either/g)?.length, 2)
})

/** The text that a terminal shows at the end of its last line. */
function lastShown(text: string): string | undefined {
  return text.split(clear).at(-1)?.split(' · ').at(-1)
}

test('on a terminal the time of a live drill never decreases, even if a connection is reported late', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { timeline, text } = outputOf(t, { isTTY: true, live: true, showsEvents: false, runs: 1 })
  const run = { variant: 'none', index: 0 }
  timeline.take(kill, run)
  t.mock.timers.tick(200)
  assert.equal(lastShown(text()), '5s of 1m35s')
  timeline.take({ atMs: 3000, type: 'connection', client: 'a', address: 'b', outcome: 'black-holed' }, run)
  t.mock.timers.tick(200)
  assert.equal(lastShown(text()), '5s of 1m35s')
})

test('on a terminal a simulated drill shows the current run, but no time', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { timeline, text } = outputOf(t, { isTTY: true, showsEvents: false })
  for (const event of [kill, { ...kill, atMs: -1 }]) {
    timeline.take(event, { variant: 'none', index: 1 })
    t.mock.timers.tick(200)
  }
  assert.deepEqual(text().split(clear).slice(1), ['run 1 of 4 · lease (etcd)', 'run 4 of 4 · none'])
})

test('a live drill shows every run', (t) => {
  const { timeline, text } = outputOf(t, { live: true })
  for (const index of [0, 1]) timeline.take(kill, { variant: 'none', index })
  timeline.end()
  assert.equal(text().match(/kill a/g)?.length, 2)
})

test('without showsEvents nothing is shown', (t) => {
  const { timeline, text } = outputOf(t, { showsEvents: false })
  timeline.take(kill, { variant: 'none', index: 0 })
  timeline.end()
  assert.equal(text(), '')
})

test('on a terminal the progress is below the lines, no wider than the terminal, and disappears at the end', () => {
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

test('without a terminal no progress is shown', () => {
  let text = ''
  const screen = new DrillScreen({ write: (more: string) => (text += more) })
  screen.progress('0s of 95s')
  screen.line('a line')
  screen.end()
  assert.equal(text, 'a line\n')
})

test('a report file replaces a link, and the target of the link remains unchanged', async (t) => {
  const [mine, directory] = [join(await tempDir(t), 'mine'), await tempDir(t)]
  await writeFile(mine, 'untouched')
  await symlink(mine, join(directory, 'report.json'))
  await symlink(join(directory, 'nowhere'), join(directory, 'timeline.txt'))
  await mkdir(join(directory, 'report.html'))
  const files = { 'report.json': '{}', 'timeline.txt': 'steps', 'report.html': 'a page' }
  await assert.rejects(writeFiles(directory, files), /^Error: cannot write [^;:]+report\.html: it is a directory; /)
  assert.equal(await readFile(mine, 'utf8'), 'untouched')
  assert.deepEqual((await readdir(directory)).sort(), ['report.html', 'report.json', 'timeline.txt'])
  for (const name of ['report.json', 'timeline.txt'] as const) {
    assert.ok((await lstat(join(directory, name))).isFile(), name)
    assert.equal(await readFile(join(directory, name), 'utf8'), files[name])
  }
})

test('a report file whose content cannot be produced is named, and the other files are written', async (t) => {
  const directory = await tempDir(t)
  const files = {
    'report.json': () => '{}',
    'report.html': () => {
      throw new RangeError('Invalid string length')
    },
    'timeline.txt': () => 'steps',
  }
  await assert.rejects(writeFiles(directory, files), /^Error: cannot write [^;:]+report\.html: Invalid string length; /)
  assert.deepEqual((await readdir(directory)).sort(), ['report.json', 'timeline.txt'])
})
