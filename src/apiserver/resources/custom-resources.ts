import { apiVersionOf, isRecord, type KubeObject, type Resource } from '../../kube/resources.ts'
import { getOrMake } from '../../runtime/memo.ts'
import { ageColumn, type Column, nameColumn, timeSince } from '../columns.ts'
import { parseJsonPath, valueText } from '../json-path.ts'
import type { Draft, Kind, ScalePaths } from '../kind.ts'
import { entityTooLarge, type FieldErrors } from '../refusal.ts'
import { kindSchema, metadataNames, type Schema } from '../schema.ts'
import type { StoredObject } from '../store.ts'
import {
  type DefinitionSpec,
  type DefinitionVersion,
  type JsonSchema,
  type PrinterColumn,
  type ScaleSubresource,
  specOf,
} from './custom-resource-definitions.ts'
import { withFirstGeneration, withGeneration } from './generations.ts'
import { MAX_REPLICAS } from './scale.ts'

/** The kinds that a stored definition defines, one for each served version. */
export function kindsOfDefinition(definition: Draft): readonly Kind[] {
  const { versions, ...rest } = specOf(definition)
  const stored = resourceOf(rest, versions.find((version) => version.storage) as DefinitionVersion)
  return versions.filter(({ served }) => served).map((version) => kindOf(rest, version, stored))
}

function resourceOf(
  { group, scope, names }: Omit<DefinitionSpec, 'versions'>,
  { name }: DefinitionVersion,
): Resource<Draft> {
  return { group, version: name, plural: names.plural, kind: names.kind, namespaced: scope === 'Namespaced' }
}

function kindOf(spec: Omit<DefinitionSpec, 'versions'>, version: DefinitionVersion, stored: Resource<Draft>): Kind {
  const { names } = spec
  const resource = resourceOf(spec, version)
  const openApi = (version.schema?.openAPIV3Schema ?? {}) as JsonSchema
  const hasStatus = version.subresources?.status !== undefined
  const scale = version.subresources?.scale
  const { metadata: _metadata, apiVersion: _apiVersion, kind: _kind, ...properties } = openApi.properties ?? {}
  const ownSchema: JsonSchema = { ...openApi, type: 'object', properties }
  return {
    resource,
    ...(names.singular === undefined ? {} : { singular: names.singular }),
    ...(names.shortNames === undefined ? {} : { shortNames: names.shortNames }),
    ...(names.categories === undefined ? {} : { categories: names.categories }),
    schema: { ...kindSchema(fieldsOf(ownSchema)), ...othersOf(ownSchema, false), keepsNull: true } as Schema,
    isCustom: true,
    // An object may have been stored in another version, even in one that no longer exists.
    storedAs: asVersion(resource, stored),
    hasStatus,
    ...(scale === undefined ? {} : { scale: scalePathsOf(scale) }),
    requiresResourceVersion: true,
    selectableFields: Object.fromEntries(
      (version.selectableFields ?? []).flatMap(({ jsonPath }) => {
        const read = parseJsonPath(jsonPath)
        return read === undefined ? [] : [[jsonPath.slice(1), (object: StoredObject) => valueText(read(object) ?? '')]]
      }),
    ),
    columns: [nameColumn, ...(version.additionalPrinterColumns?.flatMap(columnOf) ?? [{ ...ageColumn, type: 'date' }])],
    withDefaults: (draft) => completed(draft, ownSchema, []),
    withoutUnknown(object) {
      const unknown: string[] = []
      completed(object, ownSchema, unknown)
      // The unknown fields may stay, because `withDefaults` removes them later.
      return { known: object, unknown }
    },
    forCreate(draft) {
      const { status: _status, ...withoutStatus } = draft
      return withFirstGeneration(hasStatus ? withoutStatus : draft)
    },
    forUpdate: (draft, live) => withGeneration(draft, live),
    validate(draft, errors) {
      if (scale !== undefined) checkReplicas(draft, scale, errors)
    },
  }
}

/**
 * Upstream's ValidateScaleSpec and ValidateScaleStatus. Values that are not numbers pass, because types are not
 * enforced.
 */
function checkReplicas(draft: Draft, scale: ScaleSubresource, errors: FieldErrors): void {
  for (const path of [scale.specReplicasPath, scale.statusReplicasPath]) {
    const replicas = parseJsonPath(path)?.(draft)
    if (typeof replicas !== 'number') continue
    if (replicas < 0) errors.invalid(path, replicas, 'should be a non-negative integer')
    else if (replicas > MAX_REPLICAS) errors.invalid(path, replicas, `should be less than or equal to ${MAX_REPLICAS}`)
  }
}

function scalePathsOf({ specReplicasPath, statusReplicasPath, labelSelectorPath }: ScaleSubresource): ScalePaths {
  const namesIn = (path: string): readonly string[] => path.replace(/^\./, '').split('.')
  return {
    specReplicas: namesIn(specReplicasPath),
    statusReplicas: namesIn(statusReplicasPath),
    ...(labelSelectorPath ? { labelSelector: namesIn(labelSelectorPath) } : {}),
  }
}

/** Converts between versions. No conversion webhook is called, so versions differ only in `apiVersion`. */
function asVersion(resource: Resource<KubeObject>, stored: Resource<Draft>): NonNullable<Kind['storedAs']> {
  const as = (apiVersion: string) => (object: StoredObject) => Object.freeze({ ...object, apiVersion })
  return { resource: stored, toStored: as(apiVersionOf(stored)), fromStored: as(apiVersionOf(resource)) }
}

/** A long text costs as much as reading one value for each of this many characters. */
const CHARACTERS_PER_STEP = 16

function columnOf({ name, type, jsonPath, priority = 0 }: PrinterColumn): readonly Column[] {
  const read = parseJsonPath(jsonPath)
  if (read === undefined) return []
  const cell: Column['cell'] = (object, nowMs, spend) => {
    const value = cellOf(type, read(object, spend), nowMs)
    if (typeof value === 'string') spend(value.length / CHARACTERS_PER_STEP)
    return value
  }
  return [{ name, type, priority: priority > 0 ? 1 : 0, cell }]
}

function cellOf(type: string, value: unknown, nowMs: number): ReturnType<Column['cell']> {
  if (value === undefined || value === null) return null
  switch (type) {
    case 'string':
      return typeof value === 'string' ? value : JSON.stringify(value)
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : null
    case 'number':
      return typeof value === 'number' ? value : null
    case 'boolean':
      return typeof value === 'boolean' ? value : null
    case 'date':
      return typeof value === 'string' ? timeSince(value, nowMs) : null
    default:
      return null
  }
}

/**
 * The properties of a schema that are schemas themselves. Stored definitions can have other properties, because their
 * schemas are not validated.
 */
function propertiesOf({ properties }: JsonSchema): readonly (readonly [string, JsonSchema])[] {
  return isRecord(properties) ? Object.entries(properties).filter(([, schema]) => isRecord(schema)) : []
}

function textsOf(items: readonly string[]): readonly string[] {
  return Array.isArray(items) ? items.filter((item) => typeof item === 'string') : []
}

/**
 * The properties of a schema as managedFields needs them: the members of objects and the keys of lists. Types are not
 * enforced. `keepsUnknown`: the schema or one around it preserves unknown fields.
 */
function fieldsOf(openApi: JsonSchema, keepsUnknown = keepsUnknownIn(openApi)): Readonly<Record<string, Schema>> {
  return Object.fromEntries(propertiesOf(openApi).map(([name, schema]) => [name, schemaOf(schema, keepsUnknown)]))
}

function keepsUnknownIn(openApi: JsonSchema): boolean {
  return openApi['x-kubernetes-preserve-unknown-fields'] === true
}

/** Reads a schema as kube-openapi's `schemaconv` does. `inherited`: an enclosing schema preserves unknown fields. */
function schemaOf(openApi: JsonSchema, inherited: boolean): Schema {
  const schema = typedSchemaOf(openApi, inherited)
  return openApi.nullable === true ? { ...schema, nullable: true } : schema
}

function typedSchemaOf(openApi: JsonSchema, inherited: boolean): Schema {
  const keepsUnknown = inherited || keepsUnknownIn(openApi)
  if (openApi.type === 'object') {
    return {
      type: 'object',
      fields: fieldsOf(openApi, keepsUnknown),
      ...othersOf(openApi, inherited),
      atomic: openApi['x-kubernetes-map-type'] === 'atomic',
      pointer: true,
      keepsNull: true,
    }
  }
  if (openApi.type !== 'array')
    return openApi.default === undefined ? untyped : { ...untyped, default: openApi.default }
  const items = schemaOf(isRecord(openApi.items) ? openApi.items : {}, keepsUnknown)
  const { 'x-kubernetes-list-type': listType, 'x-kubernetes-list-map-keys': mapKeys = [] } = openApi
  const keys = listType === 'set' ? 'value' : listType === 'map' ? textsOf(mapKeys) : undefined
  return { type: 'list', items, preserveEmpty: true, ...(keys === undefined ? {} : { keys }) }
}

const untyped = { type: 'any', granular: true, keepsNull: true } as const

/** The schema of the members that are not among the properties, if there can be any. */
function othersOf(openApi: JsonSchema, inherited: boolean): { readonly others?: Schema } {
  const { additionalProperties } = openApi
  if (isRecord(additionalProperties)) {
    return { others: schemaOf(additionalProperties as JsonSchema, inherited || keepsUnknownIn(openApi)) }
  }
  const isFree = inherited || keepsUnknownIn(openApi) || propertiesOf(openApi).length === 0
  return (additionalProperties ?? isFree) ? { others: untyped } : {}
}

/**
 * The object without the fields that its schema lacks, and with the defaults of the schema. Adds the paths of the
 * fields that it leaves out to `unknown`.
 */
function completed(draft: Draft, openApi: JsonSchema, unknown: string[]): Draft {
  const completion = { unknown, defaultsLength: 0 }
  const { metadata, apiVersion, kind, ...content } = draft
  const head = { ...(kind === undefined ? {} : { kind }), ...(apiVersion === undefined ? {} : { apiVersion }) }
  return {
    ...head,
    ...(metadata === undefined ? {} : { metadata: knownMetadata(metadata, unknown) }),
    ...(completedValue(content, openApi, '', completion) as object),
  }
}

/**
 * Metadata without its unknown fields. No schema can preserve them, because metadata is a struct in Go. Adds their
 * paths to `unknown`.
 */
function knownMetadata<T>(metadata: T, unknown: string[]): T {
  if (!isRecord(metadata)) return metadata
  const others = Object.keys(metadata).filter((name) => !metadataNames.has(name))
  if (others.length === 0) return metadata
  unknown.push(...others.sort().map((name) => `metadata.${name}`))
  return Object.fromEntries(Object.entries(metadata).filter(([name]) => metadataNames.has(name))) as T
}

interface Completion {
  /** Collects the paths of the fields that are left out. */
  readonly unknown: string[]
  /** The length of the JSON of all defaults so far, in characters. */
  defaultsLength: number
}

/**
 * The limit on the defaults of one object, in characters of JSON: as long as a body may be. If each item has many
 * defaults, a short list of empty items could otherwise become an object that fills the memory. kube-apiserver's etcd
 * does not accept such an object either.
 */
const MAX_DEFAULTS_LENGTH = 3 * 1024 * 1024

/** @throws Refusal 413 */
function completedValue(value: unknown, openApi: JsonSchema, path: string, completion: Completion): unknown {
  if (Array.isArray(value)) {
    const { items } = openApi
    if (!isRecord(items)) return value
    return value.map((item, index) => completedValue(item, items, `${path}[${index}]`, completion))
  }
  if (!isRecord(value) || (openApi.type !== 'object' && openApi.properties === undefined)) return value
  const { properties, defaults } = membersOf(openApi)
  const { additionalProperties } = openApi
  const keepsUnknown = keepsUnknownIn(openApi) || openApi['x-kubernetes-embedded-resource'] === true
  const result: (readonly [string, unknown])[] = []
  for (const [name, item] of Object.entries(value)) {
    const schema = properties.get(name) ?? additionalSchema(additionalProperties, keepsUnknown)
    const here = path === '' ? name : `${path}.${name}`
    if (item === null && schema !== undefined && schema.nullable !== true && schema.default === undefined) continue
    if (schema === undefined) completion.unknown.push(here)
    else result.push([name, completedValue(item, schema, here, completion)])
  }
  for (const { name, schema, length } of defaults) {
    if (Object.hasOwn(value, name)) continue
    completion.defaultsLength += length
    if (completion.defaultsLength > MAX_DEFAULTS_LENGTH) throw entityTooLarge(MAX_DEFAULTS_LENGTH)
    // Unknown fields of a default are not reported, because no client sent them.
    const ofDefault = { unknown: [], defaultsLength: completion.defaultsLength }
    result.push([name, completedValue(schema.default, schema, name, ofDefault)])
    completion.defaultsLength = ofDefault.defaultsLength
  }
  return Object.fromEntries(result)
}

interface SchemaMembers {
  readonly properties: ReadonlyMap<string, JsonSchema>
  /** The members that have a default. `length` is that of the JSON of the name and the default. */
  readonly defaults: readonly { readonly name: string; readonly schema: JsonSchema; readonly length: number }[]
}

/** Cached, because an object may have many items of one schema. */
const knownMembers = new WeakMap<JsonSchema, SchemaMembers>()

function membersOf(openApi: JsonSchema): SchemaMembers {
  return getOrMake(knownMembers, openApi, () => {
    const properties = propertiesOf(openApi)
    const defaults = properties
      .filter(([, schema]) => schema.default !== undefined)
      .map(([name, schema]) => ({ name, schema, length: JSON.stringify({ [name]: schema.default }).length }))
    return { properties: new Map(properties), defaults }
  })
}

const anything: JsonSchema = { 'x-kubernetes-preserve-unknown-fields': true, nullable: true }

function additionalSchema(additional: JsonSchema | boolean | undefined, keepsUnknown: boolean): JsonSchema | undefined {
  if (isRecord(additional)) return additional as JsonSchema
  return additional === true || keepsUnknown ? anything : undefined
}
