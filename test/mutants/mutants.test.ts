import assert from 'node:assert/strict'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../scripts/command.ts'
import { Compiler } from './compiler.ts'
import { testedMutants } from './list.ts'
import { mutated, type TestedMutant } from './mutant.ts'
import { SourceCopy } from './source-copy.ts'

const limitMs = 120_000

test('the text that each mutant replaces occurs once in its file, and its test files exist', async () => {
  for (const [name, mutant] of await testedMutants()) {
    assert.notEqual(mutant.text, mutant.instead, name)
    await mutated(mutant)
    assert.ok(mutant.tests.length > 0, name)
    for (const file of mutant.tests) await access(join(root, 'test', file))
  }
})

test('each mutant compiles, apart from unused names: otherwise every test would seem to notice it', async (t) => {
  const compiler = new Compiler()
  t.after(() => compiler.close())
  const faults: string[] = []
  // One mutant of each file at a time, because each change of the program costs time.
  const left = Map.groupBy((await testedMutants()).values(), ({ file }) => file)
  for (; left.size > 0; ) {
    const changed = new Map<string, string>()
    for (const [file, mutants] of left) {
      const mutant = mutants.pop()
      if (mutant === undefined) left.delete(file)
      else changed.set(file, await mutated(mutant))
    }
    faults.push(...compiler.faultsIn(changed, { mayLeaveUnused: true }))
  }
  assert.deepEqual(faults, [])
  assert.equal(compiler.faultsIn(new Map([['net/address.ts', 'export const one: string = 1']])).length, 1)
})

test('the tests notice a mistake but not a change without effect, and the copy is restored after each', async (t) => {
  const copy = await SourceCopy.make()
  t.after(() => copy.remove())
  const of = (text: string, instead: string): TestedMutant => ({
    ...{ broken: 'A try.', file: 'net/host-port.ts', text, instead },
    tests: ['net/host-port.test.ts'],
  })
  const declared = 'export function parsePortRange('
  const noOp = of(declared, `export  function parsePortRange(`)
  assert.equal((await copy.try(noOp, limitMs)).type, 'not noticed')
  const empty = of(declared, `if (true) throw new Error('broken')\n${declared}`)
  assert.equal((await copy.try(empty, limitMs)).type, 'noticed')
  assert.equal((await copy.try(noOp, limitMs)).type, 'not noticed', 'the previous mistake is undone')
  await assert.rejects(copy.try(of('is nowhere in the file', ''), limitMs), /has this text 0 times, not once/)
  await assert.rejects(copy.try(of(declared, 'export function ('), limitMs), SyntaxError)
  // Only a file of that folder needs the bundle, which this import breaks.
  const bundled = {
    ...of(declared, `import { none } from './address.ts'\nvoid none\n${declared}`),
    tests: ['commands/output.test.ts'],
  }
  await assert.rejects(copy.try(bundled, limitMs), /^Error: the run failed, but no test\n/)
})
