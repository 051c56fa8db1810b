import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import type { DrillReport } from '../../src/drill/report/report.ts'
import { tempDir } from '../support/temp-dir.ts'
import { program, runProgram, startProgram } from './command-line.ts'

/** A PATH with the directory of this test's Node first. */
const path = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`

const crash = `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
name: mine
description: One of three dies for good.
fleet:
  masters: 3
duration: 60s
steps:
  - at: 5s
    action: kill
    masters: [master-2]
`

suite('drill', { concurrency: 2 }, () => {
  const wrong: readonly (readonly [args: readonly string[], ...lines: readonly string[]])[] = [
    [[], "missing required argument 'SCENARIO'; see --help"],
    [['crash', 'freeze'], "too many arguments for 'drill'. Expected 1 argument but got 2: crash, freeze; see --help"],
    [
      ['crash', '--runs', '0', '--target=both'],
      '--target: must be one of sim, live, not "both"',
      '--runs: must be a whole number from 1 to 1000000, not 0',
    ],
  ]
  for (const [args, ...lines] of wrong) {
    test(`${JSON.stringify(args)} is rejected with exit code 2`, async (t) => {
      const { code, stdout, stderr } = await runProgram(t, ['drill', ...args])
      assert.deepEqual({ code, stdout, stderr }, { code: 2, stdout: '', stderr: lines })
    })
  }

  test('mistakes in a scenario are reported with file and line, with exit code 2', async (t) => {
    const file = join(await tempDir(t), 'mine.yaml')
    await writeFile(file, crash.replace('at: 5s', 'at: 5').replace('masters: 3', 'masters: 0'))
    const { code, stdout, stderr } = await runProgram(t, ['drill', file])
    assert.deepEqual(
      [code, stdout, stderr],
      [
        2,
        '',
        [
          `${file}:6:12: masters: must be a whole number from 1 to 100, not 0`,
          `${file}:9:9: at: must be a duration such as 5s, not 5`,
        ],
      ],
    )
  })

  for (const args of ['list', 'graceful', 'graceful --output=json', 'random --runs=2 --jobs=1']) {
    test(`if the output of ${args} cannot be written, one line reports it, with exit code 1`, async (t) => {
      assert.deepEqual(await withFullOutput(t, args), [
        1,
        'apiserver-bootstrap: the output cannot be written: ENOSPC\n',
      ])
    })
  }

  test('if neither the output nor a report file can be written, both are reported', async (t) => {
    const directory = await tempDir(t)
    const file = join(directory, 'report.json')
    await mkdir(file)
    const [code, stderr] = await withFullOutput(t, 'graceful --output=json --report="$REPORT"', directory)
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^apiserver-bootstrap: the output cannot be written: ENOSPC; cannot write .*report\.json: .*\n$/,
    )
  })

  test('unwritable report files are named at the end; the report and the other files are still written', async (t) => {
    const directory = await tempDir(t)
    const [first, last] = [join(directory, 'timeline.txt'), join(directory, 'report.json')]
    await mkdir(first)
    await mkdir(last)
    const { code, stdout, stderr } = await runProgram(t, ['drill', 'graceful', '--report', directory])
    const message = `cannot write ${first}: it is a directory; cannot write ${last}: it is a directory`
    assert.deepEqual(
      [code, stderr],
      [1, [`apiserver-bootstrap: ${message}; correct that, or give --report another directory`]],
    )
    assert.match(stdout, /^held: apiserver-bootstrap drill graceful --seed 1$/m)
    assert.match(await readFile(join(directory, 'report.html'), 'utf8'), /<\/html>\s*$/)
  })

  test('list shows the built-in scenarios with their descriptions', async (t) => {
    const { code, stdout, stderr } = await runProgram(t, ['drill', 'list'])
    assert.deepEqual([code, stderr, stdout.trimEnd().split('\n').length], [0, [], 17])
    assert.match(stdout, /^crash +One of five masters dies, and comes back half a minute later\.$/m)
  })

  test('a successful drill prints its timeline and report without terminal codes, with exit code 0', async (t) => {
    const file = join(await tempDir(t), 'mine.yaml')
    await writeFile(file, crash)
    const { code, stdout, stderr } = await runProgram(t, ['drill', file, '--seed=7'])
    assert.deepEqual([code, stderr], [0, []])
    assert.equal(stdout.includes('\u001b'), false)
    const [timeline = '', report = ''] = stdout.split('\nmine: One of three dies for good.\n')
    assert.match(timeline, /^ +\+5\.000s +step +kill master-2/m)
    assert.match(report, /held/)
    // The path is quoted if the shell requires it.
    assert.ok(report.replaceAll("'", '').includes(`drill ${file} --seed 7`), report)
  })

  test('a failed drill has exit code 1; it runs the reconcilers side by side, each with all seeds', async (t) => {
    const directory = join(await tempDir(t), 'new', 'report')
    const args = ['drill', 'crash', '--output=json', '--runs=2', '--reconciler', 'lease,none', '--seed=5']
    const { code, stdout, stderr } = await runProgram(t, [...args, '--report', directory])
    assert.deepEqual([code, stderr], [1, []])
    const report = JSON.parse(stdout) as DrillReport
    assert.deepEqual(
      report.variants.map(({ name, held, runs }) => [name, held, runs.map(({ seed }) => seed)]),
      [
        ['lease (etcd)', true, [5, 6]],
        ['none', false, [5, 6]],
      ],
    )
    assert.equal(report.command, 'apiserver-bootstrap drill crash --seed 5 --runs 2 --reconciler lease,none')
    assert.deepEqual((await readdir(directory)).sort(), ['report.html', 'report.json', 'timeline.txt'])
    assert.equal(await readFile(join(directory, 'report.json'), 'utf8'), stdout)
    const timeline = await readFile(join(directory, 'timeline.txt'), 'utf8')
    const headings = timeline.split('\n').filter((line) => line.startsWith('#'))
    assert.deepEqual(headings, ['# lease (etcd), run 1, seed 5', '# none, run 1, seed 5', '# none, run 2, seed 6'])

    // The report may replace an older one, and the same seed produces the same bytes.
    const again = await runProgram(t, [...args, '--report', directory])
    assert.deepEqual([again.code, again.stdout === stdout], [1, true])
  })

  test('--allow-known-failures gives exit code 0 if only known failures of a reconciler occur', async (t) => {
    const { code, stdout } = await runProgram(t, [
      'drill',
      'crash',
      '--reconciler=lease,none',
      '--allow-known-failures',
    ])
    assert.equal(code, 0)
    assert.match(stdout, /^did not hold, by known failures alone: .* --allow-known-failures$/m)
  })

  test('the output of --output=junit is only XML', async (t) => {
    const { code, stdout } = await runProgram(t, ['drill', 'graceful', '--output=junit'])
    assert.equal(code, 0)
    assert.match(stdout, /^<\?xml [^\n]*\n<testsuites [\s\S]*<\/testsuites>\n$/)
  })

  test('random runs the schedule of one seed, or a campaign with --runs over 1', async (t) => {
    const one = await runProgram(t, ['drill', 'random', '--seed=3', '--output=json'])
    assert.equal((JSON.parse(one.stdout) as DrillReport).scenario.name, 'random-3')
    const many = await runProgram(t, ['drill', 'random', '--runs=2', '--jobs=1'])
    assert.match(many.stdout, /2 random schedules of ten minutes/)
  })

  test('an interrupted drill ends with exit code 1 and one line', async (t) => {
    const child = await startProgram(t, ['drill', 'crash', '--runs=1000000'])
    await child.output(/\+\d+\.\d+s {2}state {5}master-2: sidecar running/)
    child.kill('SIGINT')
    assert.deepEqual(await child.exited, { code: 1, signal: null })
    assert.equal(child.stderr(), 'interrupted: the drill did not finish\n')
  })
})

/** The exit code, and the text of standard error. */
async function withFullOutput(
  t: TestContext,
  args: string,
  report = '',
): Promise<readonly [code: number, stderr: string]> {
  const file = join(await tempDir(t), 'stated')
  const command = `node "$PROGRAM" drill ${args} > /dev/full 2> "$STDERR"`
  const env = { ...process.env, PATH: path, PROGRAM: program, STDERR: file, REPORT: report }
  const { code } = await promisify(execFile)('sh', ['-c', command], { env }).then(
    () => ({ code: 0 }),
    (error: { readonly code: number }) => error,
  )
  return [code, await readFile(file, 'utf8')]
}
