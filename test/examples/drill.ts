import { createMaster } from '../../src/index.ts'
import { parseScenario, renderText, runDrill } from '../../src/testing.ts'

/** What becomes of the clients of a server that embeds its masters: in a test of its own, in simulated time. */
export async function drilledCrash(scenario: string) {
  const report = await runDrill(parseScenario(scenario, 'crash.yaml'), {
    runs: 10,
    // Whatever the server composes its masters of stands here.
    createMaster: (options, ports) => createMaster({ ...options, onShutdown: 'always' }, ports),
  })
  return { held: report.held, text: renderText(report) }
}
