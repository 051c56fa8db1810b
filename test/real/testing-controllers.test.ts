import assert from 'node:assert/strict'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { pack, run } from '../support/package.ts'
import { endProcessesIn, processesIn } from '../support/processes-in.ts'
import { type Child, spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'

const root = join(import.meta.dirname, '../..')
const example = join(root, 'test/examples/testing-controllers')

// With several files at once, and with limits that a busy machine does not reach.
const node = { script: 'test:node', folder: 'node-test', flags: ['--test-concurrency=2'] } as const
const vitest = { script: 'test:vitest', folder: 'vitest', flags: ['--maxWorkers=2', '--testTimeout=60000'] } as const
const jest = { script: 'test:jest', folder: 'jest', flags: ['--maxWorkers=2', '--testTimeout=60000'] } as const
const runners = [node, vitest, jest]
const file = 'copier.spec.ts'

type Runner = (typeof runners)[number]

/** How each runner counts its tests: what it prints for these numbers of passed and failed tests, one of which is 0. */
function summary({ script }: Runner, passed: number, failed: number): RegExp {
  const [count, word] = failed === 0 ? [passed, 'passed'] : [failed, 'failed']
  if (script === 'test:node') return new RegExp(`^ℹ pass ${passed}\\nℹ fail ${failed}$`, 'm')
  return script === 'test:jest'
    ? new RegExp(`^Tests: +${count} ${word}, ${count} total$`, 'm')
    : new RegExp(`^ +Tests +${count} ${word} \\(${count}\\)$`, 'm')
}

/** A controller with two mistakes, one for each test: it copies no data, and does not try again. */
function broken(source: string): string {
  const mistaken = source
    .replace('data: source?.data', "data: { colour: 'none' }")
    .replace('.catch(() => later(() => enqueue(name)))', '.catch(() => {})')
  assert.equal(mistaken.match(/none|\.catch\(\(\) => \{\}\)/g)?.length, 2)
  return mistaken
}

test('the example of testing controllers works under node:test, vitest and jest, and detects a broken controller', {
  timeout: 280_000,
}, async (t) => {
  let directory: string | undefined
  // Before the directory is removed.
  t.after(async () => directory && endProcessesIn(directory))
  directory = await tempDir(t)
  const folder = join(directory, 'testing-controllers')
  const temporary = join(directory, 'tmp')
  await mkdir(temporary)
  await cp(example, folder, { recursive: true, filter: (path) => basename(path) !== 'node_modules' })
  const tarball = await pack(t, ['--ignore-scripts', '--pack-destination', directory], root)
  // Installs all that the lock file names, as `npm ci` does, and this package: two runs of npm would take twice as
  // long.
  await run(t, 'npm', ['install', '--no-save', '--prefer-offline', tarball.file], { cwd: folder })

  const { scripts } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>
  }
  const PATH = [join(folder, 'node_modules/.bin'), dirname(process.execPath), process.env.PATH].join(delimiter)
  const env = { PATH, TMPDIR: temporary, NO_COLOR: '1', FORCE_COLOR: undefined, NODE_OPTIONS: undefined }
  /** The runner replaces the shell, so that a signal reaches it. */
  const start = (line: string | undefined, { flags }: Runner): Promise<Child> =>
    spawnChild(t, 'sh', ['-c', `exec ${[line, ...flags].join(' ')}`], { cwd: folder, env })
  const controller = join(folder, 'copier.ts')
  const source = await readFile(controller, 'utf8')
  const mistaken = broken(source)
  const nothingRuns = () =>
    eventually('no process is left', async () => (await processesIn(folder)).length === 0, { timeoutMs: 30_000 })

  await t.test('the example compiles', async () => {
    await run(t, process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.'], { cwd: folder })
  })

  for (const { folder: of } of runners) await cp(join(folder, of, file), join(folder, of, `second-${file}`))
  for (const runner of runners) {
    await t.test(`${runner.script} passes with two test files`, async () => {
      const child = await start(scripts[runner.script], runner)
      const exit = await child.exited
      const printed = child.stdout() + child.stderr()
      assert.deepEqual(exit, { code: 0, signal: null }, printed)
      assert.match(printed, summary(runner, 4, 0))
      // The other two runners have caches there.
      if (runner.script === 'test:node') assert.deepEqual(await readdir(temporary), [])
    })
  }
  for (const { folder: of } of runners) await rm(join(folder, of, `second-${file}`))

  await t.test(
    'vitest in watch mode runs the tests again after a change of the controller, and leaves no process when it stops',
    async () => {
      const child = await start('vitest watch --dir vitest', vitest)
      await child.output(summary(vitest, 2, 0), 120_000)
      let isSeen = false
      const rerun = child.output(summary(vitest, 0, 2), 120_000).finally(() => {
        isSeen = true
      })
      // Vitest may not watch the file yet.
      const changed = eventually(
        'a run after the change',
        async () => isSeen || (await writeFile(controller, mistaken)),
        { timeoutMs: 120_000, intervalMs: 10_000 },
      )
      await Promise.all([rerun, changed])
      assert.ok((await processesIn(folder)).includes(child.pid))
      await child.stop()
      await nothingRuns()
    },
  )

  await t.test('each runner fails for a broken controller and prints the reason', async () => {
    await writeFile(controller, mistaken)
    // The runners wait most of the time.
    const children = await Promise.all(
      runners.map(async (runner) => [runner, await start(scripts[runner.script], runner)] as const),
    )
    for (const [runner, child] of children) {
      const exit = await child.exited
      const printed = child.stdout() + child.stderr()
      assert.deepEqual(exit, { code: 1, signal: null }, printed)
      assert.match(printed, summary(runner, 0, 2))
      assert.match(printed, /none/)
      assert.match(printed, /ConfigMap test\/copy does not exist, after 4000 ms/)
    }
  })

  await nothingRuns()
})
