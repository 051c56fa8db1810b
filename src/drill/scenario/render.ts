import { Document, isScalar, visit } from 'yaml'
import * as z from 'zod/mini'
import { formatDuration } from '../../documents/duration.ts'
import type { MasterPlan, MasterSettings, Part, Scenario, Step } from './scenario.ts'
import {
  apiVersion,
  boundsKeys,
  clientsKeys,
  drillKeys,
  fleetKeys,
  type Key,
  type Keys,
  kind,
  masterKeys,
  masterSettingsKeys,
  settingsKeys,
} from './schema.ts'
import { actions, stepKeys } from './step-schema.ts'

type Mapping = Readonly<Record<string, unknown>>

/** A scenario as a file that `parseScenario` reads back as the same. What is a default is left out. Pure. */
export function renderScenario({ name, description, fleet, clients, bounds, durationMs, steps }: Scenario): string {
  const { masters, ...common } = fleet
  const virtualAddresses = sharedAddresses(masters)
  const file = {
    apiVersion,
    kind,
    name,
    description,
    fleet: {
      masters: renderMasters(masters),
      ...(virtualAddresses.length > 0 && { virtualAddresses }),
      ...withoutDefaults(
        { ...inWords(common), ...(common.apiserverCount === masters.length && { apiserverCount: undefined }) },
        fleetKeys,
      ),
    },
    ...unlessEmpty('clients', withoutDefaults(inWords(clients), clientsKeys)),
    ...unlessEmpty('bounds', withoutDefaults(inWords(bounds), boundsKeys)),
    duration: formatDuration(durationMs),
    steps: steps.map(renderStep),
  }
  const document = new Document(file, { aliasDuplicateObjects: false })
  visit(document, {
    Seq(_, list) {
      list.flow = list.items.every((item) => isScalar(item))
    },
  })
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

function sharedAddresses(masters: readonly MasterPlan[]): readonly string[] {
  const all = masters.flatMap(({ addresses }) => addresses)
  return [...new Set(all.filter((address, index) => all.indexOf(address) !== index))]
}

/** Their number, when that is all there is to say. */
function renderMasters(masters: readonly MasterPlan[]): number | readonly Mapping[] {
  const rendered = masters.map(({ name, addresses, skewMs, driftPpm, settings, ...rest }, index) => ({
    ...(name !== `master-${index + 1}` && { name }),
    ...(addresses.join() !== `192.0.2.${index + 1}` && { addresses }),
    ...withoutDefaults({ ...rest, ...inWords({ skewMs }), drift: driftPpm }, masterKeys),
    ...unlessEmpty('settings', inWords(settings)),
  }))
  return rendered.every((master) => Object.keys(master).length === 0) ? masters.length : rendered
}

function renderStep(step: Step): Mapping {
  const { atMs, action, ...rest } = step
  const { settings, ...others } = rest as { readonly settings?: MasterSettings }
  // What runs beside another leaves no choice of these.
  const forced = step.action === 'restart' && step.overlapMs !== undefined ? ['part', 'signal', 'pause'] : []
  const words = Object.entries(withoutDefaults(inWords(others), actions[action].keys))
  return {
    at: formatDuration(atMs),
    action,
    ...Object.fromEntries(words.filter(([key]) => !forced.includes(key))),
    ...(settings !== undefined && { settings: inWords(settings) }),
  }
}

/** `forMs: 30000` as `for: 30s`. */
function inWords(values: object): Mapping {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) =>
      key.endsWith('Ms') ? [key.slice(0, -'Ms'.length), formatDuration(value as number)] : [key, value],
    ),
  )
}

function withoutDefaults(values: Mapping, keys: Keys): Mapping {
  return Object.fromEntries(
    Object.entries(values).filter(([key, value]) => value !== undefined && value !== keys[key]?.default),
  )
}

function unlessEmpty(key: string, mapping: Mapping): Mapping {
  return Object.keys(mapping).length === 0 ? {} : { [key]: mapping }
}

const parts: Readonly<Record<Part, string>> = { sidecar: 'sidecar', server: 'server', both: 'sidecar and server' }
const signals: Readonly<Record<string, string>> = { kill: 'SIGKILL', terminate: 'SIGTERM' }

/** The properties of a step beside its action and its masters, in the order of its text. */
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
  settings: (settings: object) => `with ${describeSettings(settings)}`,
  forMs: (ms: number) => `for ${formatDuration(ms)}`,
  pauseMs: (ms: number) => `pause ${formatDuration(ms)}`,
  overlapMs: (ms: number) => `overlap ${formatDuration(ms)}`,
  seed: (seed: number) => `seed ${seed}`,
}

/**
 * A step in words, for the transcript: what is done, to whom, and how, such as `kill master-2 (sidecar and server) for
 * 30s`.
 */
export function describeStep(step: Step, masters: readonly string[]): string {
  const given: Readonly<Record<string, unknown>> = { ...step }
  const facts = Object.entries(words).flatMap(([key, describe]) => {
    // Where lives overlap there is no pause.
    const isGiven = given[key] !== undefined && !(key === 'pauseMs' && given.overlapMs !== undefined)
    return isGiven ? [describe(given[key] as never)] : []
  })
  return [step.action, ...masters, ...facts].join(' ')
}

function describeSettings(settings: object): string {
  return Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => (key.endsWith('Ms') ? `${key.slice(0, -2)}=${formatDuration(value)}` : `${key}=${value}`))
    .join(' ')
}

type Json = Readonly<Record<string, unknown>>

/** The JSON Schema (2020-12) of a scenario file, for editors: keys, forms, bounds, choices, defaults. */
export function scenarioSchema(): Json {
  const master = mapping(masterKeys, { settings: mapping(masterSettingsKeys) })
  const masters = {
    oneOf: [
      { type: 'integer', minimum: 1, maximum: 100 },
      { type: 'array', minItems: 1, items: master },
    ],
  }
  const steps = Object.entries(actions).map(([action, { description, keys }]) => ({
    description,
    ...mapping({ ...stepKeys, ...keys }, { action: { const: action }, settings: mapping(settingsKeys) }),
  }))
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `${kind} (${apiVersion})`,
    description: 'Scenario of a failover drill: apiserver-bootstrap drill FILE',
    ...mapping(drillKeys, {
      fleet: mapping(fleetKeys, { masters }),
      clients: mapping(clientsKeys),
      bounds: mapping(boundsKeys),
      steps: { type: 'array', maxItems: 1000, items: { oneOf: steps } },
    }),
  }
}

/** `forms` are those of values that have keys of their own. */
function mapping(keys: Keys, forms: Readonly<Record<string, Json>> = {}): Json {
  const entries: readonly (readonly [string, Key])[] = Object.entries(keys)
  const required = entries.filter(([, { required }]) => required).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(
      entries.map(([name, key]) => [name, { ...described(key), ...(forms[name] ?? formOf(key)) }]),
    ),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  }
}

function described({ description, unset, default: byDefault }: Key): Json {
  return {
    description: unset === undefined ? description : `${description} (left out: ${unset})`,
    ...(byDefault !== undefined && { default: byDefault }),
  }
}

function formOf({ schema }: Key): Json {
  const { $schema: _, ...form } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return form
}
