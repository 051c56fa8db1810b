import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completionScript } from '../../src/commands/completion.ts'
import { commands } from '../../src/commands/declarations.ts'
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
  [['drill', 'side'], ['sidecar.yaml']],
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

test('completion prints the script of each shell, and an unknown shell is rejected in one line', async (t) => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await runProgram(t, ['completion', shell])
    assert.equal(code, 0)
    assert.equal(stdout, completionScript(shell, commands))
  }
  const { code, stderr } = await runProgram(t, ['completion', 'tcsh'])
  assert.deepEqual({ code, stderr }, { code: 2, stderr: ['SHELL: must be one of bash, zsh, fish, not "tcsh"'] })
})
