import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { commandSummaries, commands } from '../../src/commands/declarations.ts'
import { defaultTextOf, flagOf } from '../../src/documents/option.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram } from './command-line.ts'

suite('the command line', { concurrency: 2 }, () => {
  const wrong: readonly (readonly [args: readonly string[], line: string])[] = [
    [[], 'a command is needed; see --help'],
    [['runn'], "unknown command 'runn' (Did you mean run?); see --help"],
    [['config'], 'a command is needed; see --help'],
    [['config', 'chek'], "unknown command 'chek' (Did you mean check?); see --help"],
    [['run', '--secure-prot', '1'], "unknown option '--secure-prot' (Did you mean --secure-port?); see --help"],
    [['run', '--secure-port'], "option '--secure-port <PORT>' argument missing; see --help"],
    [['run', 'now'], "too many arguments for 'run'. Expected 0 arguments but got 1: now; see --help"],
    [['withdraw', '--dry-run'], "unknown option '--dry-run'; see --help"],
  ]
  for (const [args, line] of wrong) {
    test(`${JSON.stringify(args)} is rejected in one line with exit code 2`, async (t) => {
      const { code, stdout, stderr } = await runProgram(t, args)
      assert.deepEqual({ code, stdout, stderr }, { code: 2, stdout: '', stderr: [line] })
    })
  }

  test('--version prints the versions of the program and of Node', async (t) => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    const { code, stdout } = await runProgram(t, ['--version'])
    assert.deepEqual(
      { code, stdout },
      { code: 0, stdout: `apiserver-bootstrap ${version} (Node ${process.versions.node})\n` },
    )
  })

  test('--help lists every command with its summary, within 80 columns', async (t) => {
    const { code, stdout, stderr } = await runProgram(t, ['--help'])
    assert.deepEqual([code, stderr], [0, []])
    const listed = stdout.replace(/\s+/g, ' ')
    for (const { path, summary } of commands) {
      const [name, subname] = path
      const isAlone = subname === undefined
      assert.ok(listed.includes(` ${name} ${isAlone ? summary : (commandSummaries[name] ?? '')}`), path.join(' '))
    }
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line)
  })

  test('the help of each command has its flags, their defaults and its examples, within 80 columns', async (t) => {
    for (const { path, groups, examples } of commands) {
      const { code, stdout, stderr } = await runProgram(t, [...path.filter((word) => word !== undefined), '--help'])
      assert.deepEqual([code, stderr], [0, []])
      const listed = stdout.replace(/\s+/g, ' ')
      for (const [key, option] of groups.flatMap(({ options }) => Object.entries(options))) {
        const defaultText = defaultTextOf(option)
        const end = defaultText === undefined ? '' : ` (default: ${defaultText})`
        assert.match(stdout, new RegExp(`^  --${flagOf(key)}[ \\n]`, 'm'))
        assert.ok(listed.includes(`${option.description}${end}`), `${path.join(' ')} --${flagOf(key)}${end}`)
      }
      for (const line of stdout.split('\nExamples:')[0]?.split('\n') ?? []) assert.ok(line.length <= 80, line)
      assert.ok(examples.length > 0, path.join(' '))
      assert.ok(stdout.endsWith(`\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}`), stdout)
    }
  })

  test('a Node that is too old is reported in one line, before the flags are parsed', async (t) => {
    const pretend = (node: string): readonly string[] => [
      '--import',
      `data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${node}' } })`,
    ]
    for (const old of ['20.20.2', '22.18.0']) {
      const { code, stderr } = await runProgram(t, ['run', '--nonsense'], pretend(old))
      assert.deepEqual(
        { code, stderr },
        { code: 2, stderr: [`apiserver-bootstrap needs Node 22.19 or later; this is ${old}`] },
      )
    }
    for (const fit of ['22.19.0', '25.0.0']) {
      assert.equal((await runProgram(t, ['--version'], pretend(fit))).code, 0)
    }
  })

  test('every mistake in flags and file is reported in one line, without other output', async (t) => {
    const file = join(await tempDir(t), 'sidecar.yaml')
    await writeFile(
      file,
      'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Configuration\nsecure-port: 1\nleaseTtl: 1s\n',
    )
    const { code, stdout, stderr } = await runProgram(t, ['run', '--config', file, '--on-shutdown', 'stay'])
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' })
    assert.deepEqual(stderr, [
      `${file}:3:1: unknown setting "secure-port"; did you mean securePort?`,
      `${file}:4:11: leaseTtl: must be at least 2s, not "1s"`,
      '--on-shutdown: must be one of withdraw, always, keep, not "stay"',
      '--kubeconfig: one of --kubeconfig, --in-cluster and --embedded is required; there is no default API server',
      '--advertise-address: is required, unless --endpoint-reconciler-type is none or --controllers leaves out kubernetes-service',
    ])
  })

  test('an unreadable configuration file is reported with its name', async (t) => {
    const directory = await tempDir(t)
    const missing = join(directory, 'none.yaml')
    assert.deepEqual((await runProgram(t, ['config', 'check', '--config', missing])).stderr, [
      `--config: cannot read ${missing}: no such file`,
    ])
    assert.deepEqual((await runProgram(t, ['config', 'check', '--config', directory])).stderr, [
      `--config: cannot read ${directory}: it is a directory`,
    ])
  })

  test('an endless configuration file is refused without being read on', async (t) => {
    const { stderr } = await runProgram(t, ['config', 'check', '--config', '/dev/zero'])
    assert.deepEqual(stderr, ['/dev/zero: is larger than 256 KiB'])
  })

  test('config print shows effective values as YAML and as JSON', async (t) => {
    const flags = ['config', 'print', '--embedded', '--secure-port=7443', '--dry-run=false']
    const yaml = await runProgram(t, flags)
    assert.equal(yaml.code, 0)
    assert.match(yaml.stdout, /^securePort: 7443 +# --secure-port$/m)
    const json = await runProgram(t, [...flags, '--output', 'json'])
    assert.deepEqual((JSON.parse(json.stdout) as Record<string, unknown>).dryRun, { value: false, source: '--dry-run' })
    const other = await runProgram(t, [...flags, '--output', 'xml'])
    assert.deepEqual([other.code, other.stderr], [2, ['--output: must be one of yaml, json, not "xml"']])
  })

  test('a list flag may be repeated', async (t) => {
    const { stdout } = await runProgram(t, [
      'config',
      'print',
      '--embedded',
      '--controllers=auto',
      '--controllers',
      '-system-namespaces',
    ])
    assert.match(stdout, /^controllers: \[auto, "-system-namespaces"\]/m)
  })
})
