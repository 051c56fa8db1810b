import { didYouMean, InvalidInputError } from '../../documents/validation.ts'
import { parseYaml } from '../../documents/yaml.ts'
import { isRecord } from '../../kube/resources.ts'
import { lastStepEndMs, longestTtlMs } from './duration.ts'
import { MappingReader, type Path } from './mapping-reader.ts'
import { checkScenario, type PlacedStep } from './rules.ts'
import type { MasterPlan, Scenario, Step } from './scenario.ts'
import { drillKeys, masterKeys } from './schema.ts'
import { actionNames, actions, stepKeys } from './step-schema.ts'

/**
 * The length of the last part of a scenario without a given duration, in milliseconds. Normally no reaction is due in
 * this part.
 */
const QUIET_MS = 10_000

/**
 * Parses a scenario. `file` is its name in messages. Sorts the steps by time; steps of the same time keep their order.
 * Throws an {@link InvalidInputError} with every mistake, each with file, line and column. Contradictions between
 * values are reported only if each value is valid by itself. Pure.
 */
export function parseScenario(text: string, file: string): Scenario {
  const document = parseYaml(text, file)
  const reader = new MappingReader(document)
  const read = reader.read(document.value ?? {}, [], drillKeys, 'a drill')
  const masters = readMasters(reader, read.fleet?.masters)
  const placed = (read.steps ?? []).flatMap((value, index) => readStep(reader, value, ['steps', index]))
  if (reader.mistakes.length > 0) throw new InvalidInputError(reader.mistakes)
  placed.sort((a, b) => a.step.atMs - b.step.atMs)
  const steps = placed.map(({ step }) => step)
  const { virtualAddresses = [], apiserverCount = masters.length, ...common } = read.fleet
  const fleet = { ...common, masters, apiserverCount }
  const automaticMs = lastStepEndMs(steps, fleet) + 2 * longestTtlMs(steps, fleet) + read.bounds.recoveryMs + QUIET_MS
  const { name, description, clients, bounds, durationMs = automaticMs } = read
  const scenario: Scenario = { name, description, fleet, clients, bounds, durationMs, steps }
  checkScenario(reader, scenario, { placed, virtualAddresses })
  if (reader.mistakes.length > 0) throw new InvalidInputError(reader.mistakes)
  return scenario
}

function readMasters(reader: MappingReader, given: number | readonly unknown[] = []): readonly MasterPlan[] {
  const list = typeof given === 'number' ? Array.from({ length: given }, () => ({})) : given
  return list.map((value, index) => {
    const number = index + 1
    const read = reader.read(value, ['fleet', 'masters', index], masterKeys, 'a master')
    return { name: `master-${number}`, addresses: [`192.0.2.${number}`], ...read }
  })
}

/** The step as a list of one; empty if the action is unknown. */
function readStep(reader: MappingReader, value: unknown, path: Path): readonly PlacedStep[] {
  const action = isRecord(value) ? (value.action ?? undefined) : undefined
  const known = actionNames.find((name) => name === action)
  if (isRecord(value) && known === undefined) {
    reader.wrong([...path, 'action'], unknownAction(action))
    return []
  }
  const keys = { ...stepKeys, ...(known && actions[known].keys) }
  const read = reader.read(value, path, keys, known === undefined ? 'a step' : `the action ${known}`) as Step
  const isOverlap = read.action === 'restart' && read.overlapMs !== undefined
  return [{ step: isOverlap ? { ...read, ...overlapping } : read, path }]
}

function unknownAction(action: unknown): string {
  const meant = typeof action === 'string' ? didYouMean(action, actionNames) : undefined
  const rest = meant === undefined ? `there are ${actionNames.join(', ')}` : `did you mean ${meant}?`
  return action === undefined ? `is missing; ${rest}` : `there is no action ${JSON.stringify(action)}; ${rest}`
}

const overlapping = { part: 'sidecar', signal: 'terminate', pauseMs: 0 } as const
