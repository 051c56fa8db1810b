import * as z from 'zod/mini'
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
} from './scenario-schema.ts'
import { actions, stepKeys } from './step-schema.ts'

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
