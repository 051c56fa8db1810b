import type { Program } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

/** Resolves with the program when it reports that it is ready. */
export async function readyProgram(program: Program, withinMs = 60_000): Promise<Program> {
  const { health } = await program.waitForLog(/"message":"started"/, 20_000)
  await untilPasses(
    'the program to be ready',
    async () => {
      program.assertRunning()
      const answer = await fetch(`http://${health}/readyz`, { headers: { connection: 'close' } })
      if (!answer.ok) throw new Error(await answer.text())
    },
    { withinMs },
  )
  return program
}
