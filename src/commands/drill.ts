import type { Flags } from '../config/resolve.ts'
import { randomScenario } from '../drill/random/random-scenario.ts'
import { failedAsKnown } from '../drill/report/failures.ts'
import { renderJunit } from '../drill/report/junit.ts'
import type { DrillReport } from '../drill/report/report.ts'
import { renderText } from '../drill/report/text.ts'
import { runDrill } from '../drill/run-drill.ts'
import { builtInScenarios, loadScenario } from '../drill/scenario/load-scenario.ts'
import type { Scenario } from '../drill/scenario/scenario.ts'
import { DrillError } from '../drill/target.ts'
import { packageVersion } from '../runtime/system-package.ts'
import { DrillScreen, DrillTimeline, prepareReportDirectory, writeReport } from './drill-output.ts'
import { type DrillRequest, readDrillRequest, variantsOf } from './drill-request.ts'
import type { DrillValues } from './options.ts'
import { presentable, print, runAll, watchOutput } from './output.ts'
import { onUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Drills a fleet with a scenario, and reports. Resolves with 0 if all invariants held, or if `--allow-known-failures`
 * allows all failures; otherwise, and after an interruption, with 1. Throws an InvalidInputError for mistakes of the
 * command line or the scenario, before it contacts a server. Also rejects as {@link runDrill} does, and if an output
 * cannot be written.
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

async function list(): Promise<number> {
  const scenarios = await builtInScenarios()
  const width = Math.max(...scenarios.map(({ name }) => name.length))
  await print(scenarios.map(({ name, description }) => `${name.padEnd(width)}  ${description}\n`).join(''))
  return 0
}

async function runCampaign(values: DrillValues, version: string): Promise<number> {
  const { runCampaignCommand } = await import('./drill-campaign.ts')
  if (values.report !== undefined) await prepareReportDirectory(values.report)
  const stop = stopSignals()
  const signal = AbortSignal.any([stop.signal, watchOutput().gone])
  try {
    return await runCampaignCommand({ ...values, version }, { signal, screen: process.stdout })
  } finally {
    stop.release()
  }
}

async function drill(scenario: Scenario, { values, rest, command }: DrillRequest, version: string): Promise<number> {
  const { target, seed, runs, output, report: directory } = values
  const varied = variantsOf(scenario, values)
  const live = target === 'live'
  const createTarget = live ? await (await import('./drill-live.ts')).liveTargets(varied, { rest, values }) : undefined
  if (directory !== undefined) await prepareReportDirectory(directory)

  // The cluster must also be restored when the terminal is closed.
  const stop = stopSignals(live ? ['SIGHUP'] : [])
  const crash = new AbortController()
  let isRestored = !live
  onUnhandled((error) => {
    process.stderr.write(`apiserver-bootstrap: ${presentable(String(error))}\n`)
    if (isRestored) process.exit(1)
    // The drill then ends its processes and restores the objects, as after a stop signal.
    crash.abort(error)
  })
  // The drill ends when standard output cannot be written, for example because its reader has exited.
  const stdout = watchOutput()
  const signal = AbortSignal.any([stop.signal, stdout.gone, crash.signal])
  const showsEvents = output === 'text'
  const screen = new DrillScreen(showsEvents ? process.stdout : process.stderr)
  const variants = varied.map(({ variant }) => variant)
  if (showsEvents) screen.line(`${scenario.name} on ${target}, from seed ${seed}`)
  const timeline = new DrillTimeline({
    screen,
    durationMs: scenario.durationMs,
    variants: variants.map((variant) => variant.name),
    runs,
    seed,
    live,
    showsEvents,
  })
  let report: DrillReport
  try {
    report = await runDrill(scenario, {
      seed,
      runs,
      variants,
      ...(createTarget !== undefined && { createTarget }),
      command,
      version,
      signal,
      onEvent: (event, run) => timeline.take(event, run),
    })
    crash.signal.throwIfAborted()
  } catch (error) {
    // A DrillError may name objects that were not restored, so it is reported even after an interruption.
    if (!signal.aborted || error instanceof DrillError) throw error
    timeline.end()
    const found = live ? ', and the objects are restored' : ''
    if (crash.signal.aborted) process.stderr.write(`the drill ended with this error${found}\n`)
    else if (stop.signal.aborted) process.stderr.write(`interrupted: the drill did not finish${found}\n`)
    else if (stdout.fault() !== undefined) throw new Error(`${stdout.fault()}${found}`)
    return 1
  } finally {
    isRestored = true
    timeline.end()
    stop.release()
  }
  // If one output cannot be written, as on a full disk, the other one is still attempted.
  await runAll(
    () => print(showsEvents ? `\n${renderText(report)}\n` : rendered(report, output)),
    async () => directory && writeReport(directory, report),
  )
  return report.held || (values.allowKnownFailures && failedAsKnown(report.variants)) ? 0 : 1
}

function rendered(report: DrillReport, output: DrillValues['output']): string {
  return output === 'junit' ? `${renderJunit(report).trimEnd()}\n` : `${JSON.stringify(report, undefined, 2)}\n`
}
