import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { commands } from '../src/commands/declarations.ts'
import { readDrillRequest } from '../src/commands/drill-request.ts'
import { resolveConfiguration } from '../src/config/resolve.ts'
import { flagOf } from '../src/documents/option.ts'

const pages = ['README.md', ...globSync('docs/guides/*.md').sort()].map((file) => ({
  file,
  text: readFileSync(file, 'utf8'),
}))

/** An example that is a package of its own. */
const controllers = 'testing-controllers'

function blocks(text: string, language: string): readonly string[] {
  return [...text.matchAll(new RegExp(`^ *\`\`\`${language}\n(.*?)\n *\`\`\``, 'gms'))].map((match) => match[1] ?? '')
}

/** Every command line of a page, without line breaks and comments. */
function commandLines(text: string): readonly string[] {
  return blocks(text, 'sh')
    .flatMap((block) => block.replaceAll(/\\\n */g, '').split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
}

/** The words after the name of the program, for each line that calls it. */
function ownCommands(text: string): readonly (readonly string[])[] {
  return commandLines(text)
    .map((line) => /^(?:source <\()?apiserver-bootstrap ([^)>]*)/.exec(line)?.[1])
    .filter((line) => line !== undefined)
    .map((line) => line.trim().split(/\s+/))
}

function flagsOf(words: readonly string[]): Readonly<Record<string, string>> {
  const flags = ` ${words.join(' ')}`
    .split(/ --/)
    .slice(1)
    .map((flag) => {
      const [name = '', value = 'true'] = flag.split(/[ =]/)
      return [name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]
    })
  return Object.fromEntries(flags)
}

test('the examples in the README and the guides equal the tested example files', () => {
  const names = [
    'embed',
    'drill',
    'in-process',
    'redis-contract',
    ...['copier', 'node-test/copier.spec'].map((name) => `${controllers}/${name}`),
  ]
  const examples = names.map((name) =>
    readFileSync(`test/examples/${name}.ts`, 'utf8')
      .trim()
      .replaceAll("'../../src/index.ts'", "'apiserver-bootstrap'")
      .replaceAll("'../../src/testing.ts'", "'apiserver-bootstrap/testing'"),
  )
  assert.deepEqual(pages.flatMap(({ text }) => blocks(text, 'ts')).sort(), examples.sort())
})

test('the test files of the testing-controllers example differ only in the import of the runner that the guide lists', () => {
  const guide = readFileSync('docs/guides/testing-controllers.md', 'utf8')
  const { scripts } = JSON.parse(readFileSync(`test/examples/${controllers}/package.json`, 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>
  }
  const rows = [...guide.matchAll(/^\| ([\w:]+) \| `(import .+)` \| `(.+)` \|$/gm)]
  const bodies = rows.map(([, runner = '', line = '', command = '']) => {
    const folder = runner === 'node:test' ? 'node-test' : runner
    const lines = readFileSync(`test/examples/${controllers}/${folder}/copier.spec.ts`, 'utf8').split('\n')
    assert.ok(lines.includes(line), `${folder}: ${line}`)
    assert.ok(scripts[`test:${folder.replace('-test', '')}`]?.startsWith(command), command)
    return lines.filter((other) => other !== line).join('\n')
  })
  assert.equal(bodies.length, 3)
  assert.equal(new Set(bodies).size, 1)
})

test('the documents and manifests name the version of package.json', () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  for (const [file, text] of [
    ['README.md', `./apiserver-bootstrap-${version}.tgz`],
    ['docs/guides/testing-controllers.md', `./apiserver-bootstrap-${version}.tgz`],
    ['config/kustomize/in-a-pod/kustomization.yaml', `newTag: ${version}\n`],
    ['config/kustomize/endpoints-controllers/kustomization.yaml', `newTag: ${version}\n`],
    ['config/kustomize/static-pod/pod.yaml', `apiserver-bootstrap:${version}\n`],
  ] as const) {
    assert.ok(readFileSync(file, 'utf8').includes(text), `${file}: ${text}`)
  }
})

test('every npm script that the README and the guides run exists', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const lines = pages.flatMap(({ text }) => commandLines(text)).filter((line) => line.startsWith('npm '))
  assert.ok(lines.length >= 4)
  for (const line of lines) {
    const [, script = ''] = /^npm (?:run )?([a-z:]+)/.exec(line) ?? []
    if (!['ci', 'install'].includes(script)) assert.ok(scripts[script] !== undefined, line)
  }
})

test('every command line of the README, the guides and the help is accepted', () => {
  const help = { file: 'docs/cli.md', text: readFileSync('docs/cli.md', 'utf8') }
  const lines = [...pages, help].flatMap(({ file, text }) => ownCommands(text).map((words) => ({ file, words })))
  assert.ok(lines.filter(({ file }) => file === 'README.md').length >= 2)
  for (const { file, words } of lines) {
    const name = `${file}: ${words.join(' ')}`
    const first = words.findIndex((word) => word.startsWith('--'))
    const [command = '', argument = ''] = words.slice(0, first === -1 ? words.length : first)
    const flags = flagsOf(words)
    const declared =
      commands.find(({ path }) => path.join(' ') === `${command} ${argument}`) ??
      commands.find(({ path }) => path.join(' ') === command)
    assert.ok(declared !== undefined, name)
    const known = declared.groups.flatMap(({ options }) => Object.keys(options))
    for (const key of Object.keys(flags)) assert.ok(known.includes(key), `${name}: --${flagOf(key)}`)
    // If settings are missing in a file, that is not a mistake of the command line.
    if (command === 'run' && flags.config === undefined) assert.doesNotThrow(() => resolveConfiguration(flags), name)
    if (command === 'drill') assert.doesNotThrow(() => readDrillRequest(flags, argument), name)
  }
})

test('the sidecar command of the README sets the advertised address and etcd', () => {
  const run =
    ownCommands(readFileSync('README.md', 'utf8')).find(
      (words) => words[0] === 'run' && !words.includes('--embedded'),
    ) ?? []
  const { configuration } = resolveConfiguration(flagsOf(run))
  assert.equal(configuration.advertiseAddress?.[0]?.text, '192.0.2.1')
  assert.ok(configuration.etcdServers !== undefined)
})
