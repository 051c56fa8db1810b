import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { completionScript } from '../../src/commands/completion.ts'
import { commands } from '../../src/commands/declarations.ts'
import { flagOf } from '../../src/documents/option.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

type Complete = (line: string) => Promise<readonly string[]>

/** What fish offers at the end of a line. */
async function fish(t: TestContext): Promise<Complete> {
  const file = join(await tempDir(t), 'completion.fish')
  writeFileSync(file, completionScript('fish', commands))
  return async (line) => {
    const script = `source ${file}; complete -C ${JSON.stringify(`apiserver-bootstrap ${line}`)}`
    const shell = await spawnChild(t, 'fish', ['--no-config', '-c', script], { cwd: 'config' })
    assert.deepEqual(await shell.exited, { code: 0, signal: null }, shell.stderr())
    assert.equal(shell.stderr(), '')
    return shell
      .stdout()
      .split('\n')
      .map((offer) => offer.replace(/\t.*/, ''))
      .filter((offer) => offer !== '')
  }
}

/** What zsh offers when Tab is pressed in a terminal of its own. */
async function zsh(t: TestContext): Promise<Complete> {
  const directory = await tempDir(t)
  writeFileSync(join(directory, 'completion.zsh'), completionScript('zsh', commands))
  // The offers of compadd are printed instead of shown.
  writeFileSync(
    join(directory, '.zshrc'),
    `autoload -U compinit && compinit -u -d ${directory}/dump
source ${directory}/completion.zsh
PS1= && unsetopt zle_bracketed_paste 2> /dev/null
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
  typeset -a offers
  builtin compadd -A offers "$@"
  for offer in $offers; do print -r -- "OFFER:$offer"; done
}
bindkey '^I' complete-word
zle -C complete-word complete-word _finish
_finish() { _main_complete; print -r -- DONE; exit 0 }
`,
  )
  return async (line) => {
    const script = `zmodload zsh/zpty
zpty shell env ZDOTDIR=${directory} TERM=dumb zsh -i
zpty -w shell $'apiserver-bootstrap ${line}\\t'
while zpty -r shell out; do print -r -- "$out"; done`
    const shell = await spawnChild(t, 'zsh', ['-f', '-c', script], { cwd: 'config' })
    await shell.output(/DONE/, 20_000)
    await shell.exited
    return [...new Set([...shell.stdout().matchAll(/OFFER:(\S+)/g)].map(([, offer = '']) => offer))]
  }
}

for (const [name, open] of Object.entries({ fish, zsh })) {
  test(`${name} completes commands, flags, values and files`, async (t) => {
    const complete = await open(t)
    const sorted = async (line: string) => (await complete(line)).toSorted()
    const names = [...new Set(commands.map(({ path: [first] }) => first))]
    assert.deepEqual(await sorted(''), names.toSorted())
    assert.deepEqual(await sorted('config '), ['check', 'print'])
    assert.deepEqual(await sorted('completion '), ['bash', 'fish', 'zsh'])
    assert.deepEqual(await sorted('masters evict --y'), ['--yes'])
    assert.deepEqual(await sorted('verify --output '), ['github', 'json', 'junit', 'table'])
    assert.deepEqual(await sorted('run --config side'), ['sidecar.yaml'])
    assert.deepEqual(await sorted('drill side'), ['sidecar-restart', 'sidecar.yaml'])
    assert.deepEqual(await sorted('drill li'), ['list'])
    const flags = commands
      .find(({ path }) => path.join() === 'run')
      ?.groups.flatMap(({ options }) => Object.keys(options))
    assert.deepEqual(await sorted('run --'), [...(flags ?? []).map((key) => `--${flagOf(key)}`), '--help'].toSorted())
  })
}
