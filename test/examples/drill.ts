import { createMaster } from '../../src/index.ts'
import { parseScenario, renderText, runDrill } from '../../src/testing.ts'

/** Drills a server that embeds its masters, in simulated time, and reports what its clients saw. */
export async function drilledCrash(scenario: string) {
  const report = await runDrill(parseScenario(scenario, 'crash.yaml'), {
    runs: 10,
    // Compose the master here as the server does.
    createMaster: (options, ports) => createMaster({ ...options, onShutdown: 'always' }, ports),
  })
  return { held: report.held, text: renderText(report) }
}
