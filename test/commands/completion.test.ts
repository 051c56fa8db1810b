import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completionScript } from '../../src/commands/completion.ts'
import { commands } from '../../src/commands/declarations.ts'
import { flagOf } from '../../src/documents/option.ts'
import { builtInScenarios } from '../../src/drill/scenario/load-scenario.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { runProgram } from './command-line.ts'

/** The completions that bash offers for the last of these words. */
async function offered(t: Parameters<typeof spawnChild>[0], ...words: readonly string[]): Promise<readonly string[]> {
  const line = ['apiserver-bootstrap', ...words].map((word) => `'${word}'`).join(' ')
  const script = `${completionScript('bash', commands)}
COMP_WORDS=(${line}) COMP_CWORD=${words.length}
_apiserver_bootstrap
printf '%s\\n' "\${COMPREPLY[@]}"`
  // Otherwise bash warns about a locale that this machine does not have.
  const env = { LC_ALL: 'C' }
  const bash = await spawnChild(t, 'bash', ['--noprofile', '--norc', '-c', script], { cwd: 'config', env })
  assert.deepEqual(await bash.exited, { code: 0, signal: null }, bash.stderr())
  assert.equal(bash.stderr(), '')
  return bash
    .stdout()
    .split('\n')
    .filter((word) => word !== '')
}

const cases: readonly (readonly [words: readonly string[], offered: readonly string[]])[] = [
  [[''], ['run', 'withdraw', 'verify', 'masters', 'drill', 'config', 'serve', 'completion']],
  [['ver'], ['verify']],
  [['--'], ['--help', '--version']],
  [
    ['config', ''],
    ['check', 'print'],
  ],
  [['masters', '--output', 'json', ''], ['evict']],
  [['masters', 'evict', '--y'], ['--yes']],
  [
    ['verify', '--output', ''],
    ['table', 'json', 'junit', 'github'],
  ],
  // bash splits --output=j into three words.
  [
    ['verify', '--output', '=', 'j'],
    ['json', 'junit'],
  ],
  [
    ['masters', '--output', '='],
    ['table', 'json'],
  ],
  [['drill', 'crash', '--reconciler', 'lease,ma'], ['lease,master-count']],
  [['run', '--config', 's'], ['sidecar.yaml']],
  [['drill', 'crash', '--report', 'kus'], ['kustomize']],
  [
    ['drill', 'side'],
    ['sidecar-restart', 'sidecar.yaml'],
  ],
  [['drill', 'li'], ['list']],
  [['drill', '--report', 'c'], []],
  [['masters', 'evict', ''], []],
  [['run', '--lease-ttl', ''], []],
  [['run', '--dry-run', '--drain'], []],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
]
for (const [words, expected] of cases) {
  test(`bash completes ${JSON.stringify(words)}`, async (t) => {
    assert.deepEqual(await offered(t, ...words), expected)
  })
}

/** The part of a script that completes after these command words. */
const placeIn: Readonly<Record<string, (script: string, at: string) => string>> = {
  bash: (script, at) => script.split('\n').find((line) => line.startsWith(`    '${at}') names=`)) ?? '',
  zsh: (script, at) => script.split(`    ('${at}') _arguments `)[1]?.split(';;')[0] ?? '',
  fish: (script, at) =>
    script
      .split('\n')
      .filter((line) => line.includes(`_at '${at}'"`))
      .join('\n'),
}

for (const [shell, place] of Object.entries(placeIn)) {
  test(`the script of ${shell} has every declared command, subcommand, flag and argument value in its place`, () => {
    const script = completionScript(shell, commands)
    for (const { path, groups, argument } of commands) {
      const flags = groups.flatMap(({ options }) => Object.keys(options).map((key) => flagOf(key)))
      const words = place(script, path.join(' '))
      for (const flag of [...flags, 'help']) {
        assert.match(words, new RegExp(`(?:--| -l )${flag}(?![\\w-])`), `${path.join(' ')}: ${flag}`)
      }
      const named = [...path.keys()].map((index) => [path.slice(0, index).join(' '), path[index]])
      const values = argument?.values?.map((value) => [path.join(' '), value]) ?? []
      for (const [at = '', name] of [...named, ...values]) {
        assert.match(place(script, at), new RegExp(`(?<![\\w-])${name}(?![\\w-])`), `${at}: ${name}`)
      }
    }
  })
}

test('completion offers every built-in scenario', async () => {
  const values = commands.find(({ path }) => path.join() === 'drill')?.argument?.values
  const names = (await builtInScenarios()).map(({ name }) => name)
  assert.deepEqual(values, [...names, 'random', 'list'])
})

test('completion prints the script of each shell, and an unknown shell is rejected in one line', async (t) => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await runProgram(t, ['completion', shell])
    assert.equal(code, 0)
    assert.equal(stdout, completionScript(shell, commands))
  }
  const { code, stderr } = await runProgram(t, ['completion', 'tcsh'])
  assert.deepEqual({ code, stderr }, { code: 2, stderr: ['SHELL: must be one of bash, zsh, fish, not "tcsh"'] })
})
