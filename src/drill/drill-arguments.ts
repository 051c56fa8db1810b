import type { createMaster } from '../bootstrap/master.ts'
import { didYouMean } from '../documents/did-you-mean.ts'
import { show } from '../documents/validation.ts'
import type { DrillEvent } from './event.ts'
import { isMapping } from './mapping-reader.ts'
import type { FleetPlan, Scenario } from './scenario.ts'
import { actionNames } from './step-schema.ts'
import type { DrillTarget } from './target.ts'

/** One way to keep the list, drilled beside others. */
export interface Variant {
  readonly name: string
  /** What of the scenario's fleet is otherwise. */
  readonly fleet: Partial<Pick<FleetPlan, 'reconciler' | 'leaseStore'>>
  /** All masters are kube-apiservers, with upstream's own reconciler. */
  readonly kubeApiservers?: boolean
}

export interface DrillOptions {
  /** Decides everything in the simulator, and what clients pick. Each further run takes the next one. @default 1 */
  readonly seed?: number
  /** How often each variant is drilled. @default 1 */
  readonly runs?: number
  /** Left out: the scenario as it is. */
  readonly variants?: readonly Variant[]
  /**
   * Composes each simulated sidecar, at each of its starts: for a server that has its own leases, reconciler or hooks, and wants to know
   * what becomes of its clients. @default createMaster
   */
  readonly createMaster?: typeof createMaster
  /** Makes the fleet of one run. Left out: simulated. */
  readonly openTarget?: (scenario: Scenario, seed: number) => Promise<DrillTarget>
  /** What is said to make the report again. */
  readonly command?: string
  readonly version?: string
  readonly signal?: AbortSignal
  /** Hears each event of each run as it happens. */
  readonly onEvent?: (event: DrillEvent, run: { readonly variant: string; readonly index: number }) => void
}

/** What something must be, in words, and whether a value is. */
type Form = readonly [form: string, is: (value: unknown) => boolean]

const text: Form = ['text', (value) => typeof value === 'string']
const func: Form = ['a function', (value) => typeof value === 'function']
const mapping: Form = ['an object', isMapping]

const optionForms: Readonly<Record<keyof DrillOptions, Form>> = {
  seed: ['a whole number from 0 on', (value) => Number.isInteger(value) && Number(value) >= 0],
  runs: ['a whole number from 1 on', (value) => Number.isInteger(value) && Number(value) >= 1],
  variants: ['a list of at least one variant, each with name and fleet', isEachOf(isVariant)],
  createMaster: func,
  openTarget: func,
  command: text,
  version: text,
  // That of another realm is no instance of this one's.
  signal: ['an AbortSignal', (value) => isMapping(value) && typeof value.addEventListener === 'function'],
  onEvent: func,
}

const scenarioForms: Readonly<Record<keyof Scenario, Form>> = {
  name: text,
  description: text,
  fleet: ['an object with masters', (value) => isMapping(value) && isEachOf(isMapping)(value.masters)],
  clients: mapping,
  bounds: mapping,
  steps: ['a list of steps, each with atMs and action', (value) => Array.isArray(value) && value.every(isStep)],
  durationMs: ['a number from 0 on', isTime],
}

/**
 * Refuses what a caller gave whom no compiler checks: a RangeError that names the argument. What is in the parts of a scenario is
 * `parseScenario`'s business.
 */
export function checkArguments(scenario: Scenario, options: DrillOptions): void {
  checkForm('scenario', scenario, ['a scenario, as parseScenario reads it', isMapping])
  for (const [key, form] of Object.entries(scenarioForms)) {
    checkForm(`scenario.${key}`, scenario[key as keyof Scenario], form)
  }
  checkForm('options', options, mapping)
  const names = Object.keys(optionForms)
  const unknown = Object.keys(options).find((key) => !names.includes(key))
  if (unknown !== undefined) {
    const meant = didYouMean(unknown, names)
    const rest = meant === undefined ? `it takes ${names.join(', ')}` : `did you mean ${meant}?`
    throw new RangeError(`options has no ${JSON.stringify(unknown)}; ${rest}`)
  }
  for (const [key, form] of Object.entries(optionForms)) {
    const value = options[key as keyof DrillOptions]
    if (value !== undefined) checkForm(key, value, form)
  }
}

function checkForm(name: string, value: unknown, [form, is]: Form): void {
  if (is(value)) return
  // Of an object it is something within that is wrong.
  const isWithin = typeof value === 'object' && value !== null
  throw new RangeError(`${name} must be ${form}${isWithin ? '' : `, not ${show(value)}`}`)
}

function isEachOf(is: (value: unknown) => boolean): (value: unknown) => boolean {
  return (value) => Array.isArray(value) && value.length > 0 && value.every(is)
}

function isVariant(value: unknown): boolean {
  return isMapping(value) && typeof value.name === 'string' && isMapping(value.fleet)
}

function isStep(value: unknown): boolean {
  return isMapping(value) && isTime(value.atMs) && actionNames.some((name) => name === value.action)
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY
}
