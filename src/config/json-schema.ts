import * as z from 'zod/mini'
import { defaultTextOf, flagOf, inputKindOf, type Option } from '../documents/option.ts'
import { allOptions, apiVersion, kind } from './configuration.ts'

/** The JSON Schema (2020-12) of a configuration file, for editors: keys, forms, bounds, choices, defaults. */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  const settings = allOptions.map(([key, option]) => [key, schemaOf(key, option)])
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `${kind} (${apiVersion})`,
    description: 'Configuration file of apiserver-bootstrap',
    type: 'object',
    properties: {
      apiVersion: { const: apiVersion },
      kind: { const: kind },
      ...Object.fromEntries(settings),
    },
    required: ['apiVersion', 'kind'],
    additionalProperties: false,
  }
}

function schemaOf(key: string, option: Option): unknown {
  const { $schema: _, ...form } = z.toJSONSchema(option.schema, { io: 'input', unrepresentable: 'any' })
  const defaultText = option.default === undefined ? defaultTextOf(option) : undefined
  const description = `${option.description} (--${flagOf(key)}${defaultText === undefined ? '' : `; default: ${defaultText}`})`
  const value = inputKindOf(option.schema) === 'list' ? { oneOf: [form, { type: 'string' }] } : form
  return { description, ...value, ...(option.default === undefined ? {} : { default: option.default }) }
}
