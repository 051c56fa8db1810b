import { didYouMean, InvalidInputError, show } from '../../documents/validation.ts'
import { parseYaml } from '../../documents/yaml.ts'
import type { Address } from '../../net/address.ts'
import { lastStepEndMs, longestTtlMs } from './duration.ts'
import { isMapping, MappingReader, type Path, type PlacedStep, type Read } from './mapping-reader.ts'
import { checkScenario } from './rules.ts'
import type { FleetPlan, MasterPlan, MasterSettings, Scenario, Step } from './scenario.ts'
import {
  boundsKeys,
  clientsKeys,
  drillKeys,
  fleetKeys,
  type Keys,
  masterKeys,
  masterSettingsKeys,
  settingsKeys,
} from './schema.ts'
import { actionNames, actions, stepKeys, timeKeys } from './step-schema.ts'

/** At the end, where nothing happens any more, in milliseconds. */
const QUIET_MS = 10_000

/**
 * Reads a scenario. `file` is for messages. Steps may stand in any order; those of the same time keep theirs. Throws an
 * {@link InvalidInputError} with every mistake, each with file, line and column; with the argument that is no text.
 * Pure.
 */
export function parseScenario(text: string, file: string): Scenario {
  for (const [where, given] of Object.entries({ text, file })) {
    if (typeof given !== 'string') throw new InvalidInputError([{ where, message: `must be text, not ${show(given)}` }])
  }
  const document = parseYaml(text, file)
  const reader = new MappingReader(document)
  const drill = reader.read(document.value ?? {}, [], drillKeys, 'a drill')
  const { fleet, virtualAddresses } = readFleet(reader, drill.fleet)
  const clients = reader.read(drill.clients, ['clients'], clientsKeys, 'clients')
  const bounds = reader.read(drill.bounds, ['bounds'], boundsKeys, 'bounds')
  const placed = (drill.steps ?? []).map((value, index) => readStep(reader, value, ['steps', index]))
  // What stands between values is checked once each value is right by itself.
  if (reader.mistakes.length > 0) throw new InvalidInputError(reader.mistakes)
  placed.sort((a, b) => a.step.atMs - b.step.atMs)
  const steps = placed.map(({ step }) => step)
  const automaticMs = lastStepEndMs(steps, fleet) + 2 * longestTtlMs(steps, fleet) + bounds.recovery + QUIET_MS
  const scenario: Scenario = {
    name: drill.name,
    description: drill.description,
    fleet,
    clients: {
      count: clients.count,
      intervalMs: clients.interval,
      watchDelayMs: clients.watchDelay,
      timeoutMs: clients.timeout,
    },
    bounds: {
      removalMarginMs: bounds.removalMargin,
      listedMs: bounds.listed,
      agreementMs: bounds.agreement,
      recoveryMs: bounds.recovery,
      writesPerTenSeconds: bounds.writesPerTenSeconds,
    },
    durationMs: drill.duration ?? automaticMs,
    steps,
  }
  checkScenario(reader, scenario, { placed, virtualAddresses })
  if (reader.mistakes.length > 0) throw new InvalidInputError(reader.mistakes)
  return scenario
}

function readFleet(
  reader: MappingReader,
  value: unknown,
): { readonly fleet: FleetPlan; readonly virtualAddresses: readonly string[] } {
  const read = reader.read(value, ['fleet'], fleetKeys, 'fleet')
  const given = read.masters ?? []
  const masters =
    typeof given === 'number'
      ? Array.from({ length: given }, (_, index) => readMaster(reader, {}, index))
      : given.map((master, index) => readMaster(reader, master, index))
  const fleet: FleetPlan = {
    masters,
    reconciler: read.reconciler,
    apiserverCount: read.apiserverCount ?? masters.length,
    leaseStore: read.leaseStore,
    leaseTtlMs: read.leaseTtl,
    reconcileIntervalMs: read.reconcileInterval,
    readinessGate: read.readinessGate,
    onShutdown: read.onShutdown,
    spikes: read.spikes,
  }
  return { fleet, virtualAddresses: textsOf(read.virtualAddresses) }
}

function readMaster(reader: MappingReader, value: unknown, index: number): MasterPlan {
  const path = ['fleet', 'masters', index]
  const { name, addresses, kind, skew, drift, settings } = reader.read(value, path, masterKeys, 'a master')
  return {
    name: name ?? `master-${index + 1}`,
    addresses: addresses === undefined ? [`192.0.2.${index + 1}`] : textsOf(addresses),
    kind,
    skewMs: skew,
    driftPpm: drift,
    settings: settings === undefined ? {} : readSettings(reader, settings, [...path, 'settings'], masterSettingsKeys),
  }
}

function readSettings(reader: MappingReader, value: unknown, path: Path, keys: Keys): MasterSettings {
  const read = reader.read(value, path, keys, 'settings') as Partial<Read<typeof settingsKeys>>
  const { reconciler, leaseTtl, reconcileInterval, readinessGate, onShutdown, securePort, addresses } = read
  return {
    ...(reconciler !== undefined && { reconciler }),
    ...(leaseTtl !== undefined && { leaseTtlMs: leaseTtl }),
    ...(reconcileInterval !== undefined && { reconcileIntervalMs: reconcileInterval }),
    ...(readinessGate !== undefined && { readinessGate }),
    ...(onShutdown !== undefined && { onShutdown }),
    ...(securePort !== undefined && { securePort }),
    ...(addresses !== undefined && { addresses: textsOf(addresses) }),
  }
}

/** What a key of a step is called in a {@link Step}, where it is not the key itself. */
const fieldOf: Readonly<Record<string, string>> = {
  at: 'atMs',
  jitter: 'jitterMs',
  for: 'forMs',
  pause: 'pauseMs',
  overlap: 'overlapMs',
  by: 'byMs',
  retryAfter: 'retryAfterMs',
  every: 'everyMs',
}

/** One step; of an unknown action its time alone. */
function readStep(reader: MappingReader, value: unknown, path: Path): PlacedStep {
  const action = isMapping(value) ? (value.action ?? undefined) : undefined
  const known = actionNames.find((name) => name === action)
  if (isMapping(value) && known === undefined) reader.wrong([...path, 'action'], unknownAction(action))
  const keys: Keys = known === undefined ? timeKeys : { ...stepKeys, ...actions[known].keys }
  const read: Readonly<Record<string, unknown>> =
    known === undefined
      ? reader.read(timeOf(value), path, keys, 'a step')
      : reader.read(value, path, keys, `the action ${known}`)
  const given = Object.entries(read).filter(([, one]) => one !== undefined)
  const { settings, overlap } = read
  const step = {
    ...Object.fromEntries(given.map(([key, one]) => [fieldOf[key] ?? key, one])),
    ...(settings !== undefined && { settings: readSettings(reader, settings, [...path, 'settings'], settingsKeys) }),
    ...(overlap !== undefined && overlapping),
  } as Step
  return { step, path }
}

/** What a step of whatever action has. */
function timeOf(value: unknown): unknown {
  if (!isMapping(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([key]) => Object.hasOwn(timeKeys, key)))
}

function unknownAction(action: unknown): string {
  const meant = typeof action === 'string' ? didYouMean(action, actionNames) : undefined
  const rest = meant === undefined ? `there are ${actionNames.join(', ')}` : `did you mean ${meant}?`
  return action === undefined ? `is missing; ${rest}` : `there is no action ${JSON.stringify(action)}; ${rest}`
}

/** What a restart with an overlap leaves no choice of. */
const overlapping = { part: 'sidecar', signal: 'terminate', pauseMs: 0 } as const

function textsOf(addresses: readonly Address[] | undefined): readonly string[] {
  return (addresses ?? []).map(({ text }) => text)
}
