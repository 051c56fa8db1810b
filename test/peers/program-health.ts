import assert from 'node:assert/strict'
import type { Program } from './program.ts'
import { untilPasses } from './until.ts'

/** Asks the program's own health server, once the program has logged where that is. */
export async function askHealth(
  program: Program,
  path: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const { health } = await program.waitForLog(/"health":"/, 30_000)
  const response = await fetch(`http://${health}${path}`, { headers: { connection: 'close' } })
  return { status: response.status, text: await response.text() }
}

/** Waits until the program's own /readyz is 200. */
export async function whenReady(program: Program, withinMs: number): Promise<void> {
  await untilPasses(
    'the program to be ready',
    async () => {
      program.assertRunning()
      const { status, text } = await askHealth(program, '/readyz?verbose')
      assert.equal(status, 200, text)
    },
    { withinMs },
  )
}

/** The value of one line of /metrics, given its name and labels as printed; undefined while there is none. */
export async function metricOf(program: Program, line: string): Promise<number | undefined> {
  const { text } = await askHealth(program, '/metrics')
  const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `))
  return found === undefined ? undefined : Number(found.slice(line.length))
}
