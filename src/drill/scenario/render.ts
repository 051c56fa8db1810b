import { Document, isScalar, visit } from 'yaml'
import * as z from 'zod/mini'
import { formatDuration } from '../../documents/duration.ts'
import type { MasterPlan, Part, Scenario, Step } from './scenario.ts'
import { apiVersion, drillKeys, fieldOf, type Key, type Keys, kind, masterKeys, settingsKeys } from './schema.ts'
import { actions, stepKeys } from './step-schema.ts'

type Mapping = Readonly<Record<string, unknown>>

/** Renders a scenario as a file without defaults, from which `parseScenario` reads the same scenario. Pure. */
export function renderScenario({ fleet, steps, ...scenario }: Scenario): string {
  const { masters, apiserverCount } = fleet
  const virtualAddresses = sharedAddresses(masters)
  const written = {
    ...fleet,
    masters: renderMasters(masters),
    virtualAddresses: virtualAddresses.length > 0 ? virtualAddresses : undefined,
    apiserverCount: apiserverCount === masters.length ? undefined : apiserverCount,
  }
  const file = render({ apiVersion, kind, ...scenario, fleet: written, steps: steps.map(renderStep) }, drillKeys)
  const document = new Document(file, { aliasDuplicateObjects: false })
  visit(document, {
    Seq(_, list) {
      list.flow = list.items.every((item) => isScalar(item))
    },
  })
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

function render(fields: Mapping, keys: Keys): Mapping {
  const entries = Object.entries(keys).map(([name, key]): [string, unknown] => {
    const value = fields[fieldOf(name, key)]
    if (value === undefined) return [name, undefined]
    if (key.keys === undefined) return [name, key.metavar === 'DURATION' ? formatDuration(Number(value)) : value]
    const inner = render(value as Mapping, key.keys)
    return [name, Object.keys(inner).length === 0 ? undefined : inner]
  })
  return Object.fromEntries(entries.filter(([name, value]) => value !== undefined && value !== keys[name]?.default))
}

function sharedAddresses(masters: readonly MasterPlan[]): readonly string[] {
  const all = masters.flatMap(({ addresses }) => addresses)
  return [...new Set(all.filter((address, index) => all.indexOf(address) !== index))]
}

/** The number of masters if all have only default values; otherwise a list. */
function renderMasters(masters: readonly MasterPlan[]): number | readonly Mapping[] {
  const rendered = masters.map((master, index) => {
    const name = master.name === `master-${index + 1}` ? undefined : master.name
    const addresses = master.addresses.join() === `192.0.2.${index + 1}` ? undefined : master.addresses
    return render({ ...master, name, addresses }, masterKeys)
  })
  return rendered.every((master) => Object.keys(master).length === 0) ? masters.length : rendered
}

function renderStep(step: Step): Mapping {
  // `parseScenario` refuses these keys beside `overlap`.
  const isOverlap = step.action === 'restart' && step.overlapMs !== undefined
  const forced = { part: undefined, signal: undefined, pauseMs: undefined }
  return render({ ...step, ...(isOverlap && forced) }, { ...stepKeys, ...actions[step.action].keys })
}

const parts: Readonly<Record<Part, string>> = { sidecar: 'sidecar', server: 'server', both: 'sidecar and server' }
const signals: Readonly<Record<string, string>> = { kill: 'SIGKILL', terminate: 'SIGTERM' }

/** The words for the properties of a step, in the order of the text. */
const words: Readonly<Record<string, (value: never) => string>> = {
  part: (part: Part) => `(${parts[part]})`,
  how: (how: string) => how,
  status: (status: number) => `${status}`,
  retryAfterMs: (ms: number) => `retry after ${formatDuration(ms)}`,
  everyMs: (ms: number) => `every ${formatDuration(ms)}`,
  requests: (count: number) => `${count} ${count === 1 ? 'request' : 'requests'}`,
  verb: (verb: string) => verb,
  resource: (resource: string) => resource,
  only: (which: string) => (which === 'probe' ? 'probes only' : 'no probes'),
  damage: (damage: string) => damage,
  signal: (signal: string) => `by ${signals[signal] ?? signal}`,
  from: (from: string) => `from ${from}`,
  to: (to: number) => `to ${to}`,
  byMs: (ms: number) => `by ${formatDuration(ms)}`,
  settings: (settings: Mapping) => `with ${describeSettings(settings)}`,
  forMs: (ms: number) => `for ${formatDuration(ms)}`,
  pauseMs: (ms: number) => `pause ${formatDuration(ms)}`,
  overlapMs: (ms: number) => `overlap ${formatDuration(ms)}`,
  seed: (seed: number) => `seed ${seed}`,
}

/** A step in words, for the transcript: `kill master-2 (sidecar and server) for 30s`. */
export function describeStep(step: Step, masters: readonly string[]): string {
  const given: Readonly<Record<string, unknown>> = { ...step }
  const facts = Object.entries(words).flatMap(([key, describe]) => {
    const isGiven = given[key] !== undefined && !(key === 'pauseMs' && given.overlapMs !== undefined)
    return isGiven ? [describe(given[key] as never)] : []
  })
  return [step.action, ...masters, ...facts].join(' ')
}

function describeSettings(settings: Mapping): string {
  return Object.entries(render(settings, settingsKeys))
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')
}

/** The JSON Schema (2020-12) of a scenario file, for editors. */
export function scenarioSchema(): Mapping {
  const masters = {
    oneOf: [
      { type: 'integer', minimum: 1, maximum: 100 },
      { type: 'array', minItems: 1, items: schemaOf(masterKeys) },
    ],
  }
  const steps = Object.entries(actions).map(([action, { description, keys }]) => ({
    description,
    ...schemaOf({ ...stepKeys, ...keys }, { action: { const: action } }),
  }))
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `${kind} (${apiVersion})`,
    description: 'Scenario of a failover drill: apiserver-bootstrap drill FILE',
    ...schemaOf(drillKeys, { masters, steps: { type: 'array', maxItems: 1000, items: { oneOf: steps } } }),
  }
}

/** `forms`: the JSON Schemas of values that zod cannot express, by key. */
function schemaOf(keys: Keys, forms: Readonly<Record<string, Mapping>> = {}): Mapping {
  const entries: readonly (readonly [string, Key])[] = Object.entries(keys)
  const required = entries.filter(([, { required }]) => required).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(
      entries.map(([name, key]) => [name, { ...described(key), ...(forms[name] ?? formOf(key, forms)) }]),
    ),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  }
}

function described({ description, unset, default: byDefault }: Key): Mapping {
  return {
    description: unset === undefined ? description : `${description} (left out: ${unset})`,
    ...(byDefault !== undefined && { default: byDefault }),
  }
}

function formOf({ schema, keys }: Key, forms: Readonly<Record<string, Mapping>>): Mapping {
  if (keys !== undefined) return schemaOf(keys, forms)
  const { $schema: _, ...form } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return form
}
