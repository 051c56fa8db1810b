import { availableParallelism } from 'node:os'
import type { Flags } from '../config/resolve.ts'
import { DrillError } from '../drill/drill-error.ts'
import { builtInScenarios, loadScenario } from '../drill/load-scenario.ts'
import { randomScenario } from '../drill/random/random-scenario.ts'
import { renderJunit } from '../drill/report/junit.ts'
import { renderText } from '../drill/report/text.ts'
import type { DrillReport } from '../drill/report.ts'
import { runDrill } from '../drill/run-drill.ts'
import type { Scenario } from '../drill/scenario.ts'
import { printable } from '../runtime/printable.ts'
import { packageVersion } from '../runtime/system-package.ts'
import { prepareReportDirectory, writeReport } from './drill-files.ts'
import type { DrillValues } from './drill-options.ts'
import { type DrillRequest, readDrillRequest } from './drill-request.ts'
import { DrillScreen } from './drill-screen.ts'
import { DrillTimeline } from './drill-timeline.ts'
import { variantsOf } from './drill-variants.ts'
import { doAll, print, watchOutput } from './output.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Drills a fleet as a scenario says, and reports. Ends with 0 when everything held, with 1 when something did not or the drill was
 * interrupted. Throws, before anything is contacted, an InvalidInputError with what is wrong with the command line or the scenario.
 */
export async function execute(flags: Flags, name: string): Promise<number> {
  const request = readDrillRequest(flags, name)
  if (request.type === 'list') return list()
  const { values } = request
  const version = await packageVersion()
  if (request.type === 'campaign') return runCampaign(values, version)
  const scenario = name === 'random' ? randomScenario(values.seed) : await loadScenario(name)
  return drill(scenario, request, version)
}

/** The built-in scenarios, a line each. */
async function list(): Promise<number> {
  const scenarios = await builtInScenarios()
  const width = Math.max(...scenarios.map(({ name }) => name.length))
  await print(scenarios.map(({ name, description }) => `${name.padEnd(width)}  ${description}\n`).join(''))
  return 0
}

async function runCampaign(
  { seed, runs, jobs, failFast, output, report }: DrillValues,
  version: string,
): Promise<number> {
  const { runCampaignCommand } = await import('./drill-campaign.ts')
  if (report !== undefined) await prepareReportDirectory(report)
  const stop = stopSignals()
  try {
    return await runCampaignCommand(
      {
        seed,
        runs,
        jobs: jobs ?? availableParallelism(),
        failFast,
        output: output === 'json' ? output : 'text',
        report,
        version,
      },
      { signal: AbortSignal.any([stop.signal, watchOutput().gone]), screen: process.stdout },
    )
  } finally {
    stop.release()
  }
}

async function drill(scenario: Scenario, { values, rest, command }: DrillRequest, version: string): Promise<number> {
  const { target, seed, runs, output, report: directory } = values
  const varied = variantsOf(scenario, values)
  const live = target === 'live'
  const openTarget = live ? await (await import('./drill-live.ts')).liveTargets(varied, { rest, values }) : undefined
  if (directory !== undefined) await prepareReportDirectory(directory)

  const stop = stopSignals()
  dieOfUnhandled((error) => process.stderr.write(`apiserver-bootstrap: ${printable(String(error))}\n`))
  // Nobody reads on: there is nobody to drill for.
  const stdout = watchOutput()
  const signal = AbortSignal.any([stop.signal, stdout.gone])
  const told = output === 'text'
  const screen = new DrillScreen(told ? process.stdout : process.stderr)
  const variants = varied.map(({ variant }) => variant)
  if (told) screen.line(`${scenario.name} on ${target}, from seed ${seed}`)
  const timeline = new DrillTimeline({
    screen,
    durationMs: scenario.durationMs,
    variants: variants.map((variant) => variant.name),
    runs,
    seed,
    live,
    told,
  })
  let report: DrillReport
  try {
    report = await runDrill(scenario, {
      seed,
      runs,
      variants,
      ...(openTarget !== undefined && { openTarget }),
      command,
      version,
      signal,
      onEvent: (event, run) => timeline.take(event, run),
    })
  } catch (error) {
    // What could not be put back is told, whatever ended the drill.
    if (!signal.aborted || error instanceof DrillError) throw error
    timeline.end()
    const found = live ? ', and what was found is put back' : ''
    if (stop.signal.aborted) process.stderr.write(`interrupted: the drill did not come to its end${found}\n`)
    else if (stdout.fault() !== undefined) throw new Error(`${stdout.fault()}${found}`)
    return 1
  } finally {
    timeline.end()
    stop.release()
  }
  // A disk that is full takes the one or the other.
  await doAll(
    () => print(told ? `\n${renderText(report)}\n` : rendered(report, output)),
    async () => directory && writeReport(directory, report),
  )
  return report.held ? 0 : 1
}

function rendered(report: DrillReport, output: DrillValues['output']): string {
  return output === 'junit' ? `${renderJunit(report).trimEnd()}\n` : `${JSON.stringify(report, undefined, 2)}\n`
}
