import { type CustomResourceDefinition, customResourceDefinitions, isRecord } from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { nameColumn } from '../columns.ts'
import { parseJsonPath } from '../json-path.ts'
import { type Draft, type Kind, member } from '../kind.ts'
import { dns1035LabelFault, dnsSubdomainFault } from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import * as s from '../schema.ts'
import type { StoredObject } from '../store.ts'
import { checkName } from './endpoints.ts'
import { withFirstGeneration, withGeneration } from './generations.ts'

export type DefinitionSpec = CustomResourceDefinition['spec']
export type DefinitionVersion = DefinitionSpec['versions'][number]
export type ScaleSubresource = NonNullable<NonNullable<DefinitionVersion['subresources']>['scale']>
export type PrinterColumn = NonNullable<DefinitionVersion['additionalPrinterColumns']>[number]

/** The parts of a structural schema that describe what an object consists of. */
export interface JsonSchema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: JsonSchema | boolean
  readonly items?: JsonSchema
  readonly default?: unknown
  readonly nullable?: boolean
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
  readonly 'x-kubernetes-embedded-resource'?: boolean
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular'
}

export const NOT_ENFORCED =
  'validation, CEL rules and conversion between versions are not enforced by the embedded API server'

/** The kinds that a definition defines are served as long as the definition exists. */
export const customResourceDefinitionKind: Kind = {
  resource: customResourceDefinitions,
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  schema: s.kindSchema({
    spec: s.object({
      group: s.string,
      scope: s.string,
      conversion: s.pointer({ strategy: s.string }),
      names: s.object({
        plural: s.string,
        singular: s.string,
        kind: s.string,
        listKind: s.string,
        shortNames: s.strings,
        categories: s.strings,
      }),
      versions: s.list(
        s.object({
          name: s.string,
          served: s.boolean,
          storage: s.boolean,
          schema: s.pointer({ openAPIV3Schema: s.any }),
          subresources: s.pointer({
            status: s.pointer({}),
            scale: s.pointer({ specReplicasPath: s.string, statusReplicasPath: s.string, labelSelectorPath: s.string }),
          }),
          additionalPrinterColumns: s.list(
            s.object({ name: s.string, type: s.string, jsonPath: s.string, priority: s.integer }),
          ),
          selectableFields: s.list(s.object({ jsonPath: s.string })),
        }),
      ),
    }),
    status: s.object({ conditions: s.conditions, storedVersions: s.strings }),
  }),
  hasStatus: true,
  requiresResourceVersion: true,
  columns: [nameColumn, { name: 'Created At', cell: ({ metadata }) => metadata.creationTimestamp ?? '' }],
  withDefaults(draft) {
    const spec = member(draft, 'spec')
    const names = isRecord(spec.names) ? spec.names : {}
    const kind = String(names.kind ?? '')
    const named = { singular: kind.toLowerCase(), listKind: `${kind}List`, ...names }
    return { ...draft, spec: { conversion: { strategy: 'None' }, ...spec, names: named } }
  },
  forCreate(draft) {
    const { names } = specOf(draft)
    const { creationTimestamp: lastTransitionTime } = draft.metadata ?? {}
    const established = [
      ['NamesAccepted', 'NoConflicts', 'no conflicts found'],
      ['Established', 'InitialNamesAccepted', 'the initial names have been accepted'],
    ].map(([type, reason, message]) => ({ lastTransitionTime, message, reason, status: 'True', type }))
    const status = { conditions: established, acceptedNames: names, storedVersions: storageVersions(draft) }
    return { ...withFirstGeneration(draft), status }
  },
  forUpdate(draft, live) {
    const status = member(draft, 'status')
    const stored = storedVersions(draft)
    // A write to the status, such as that of a storage migration, may remove versions from `storedVersions`.
    const isStatus = draft.spec === live.spec && stored.length > 0
    const all = isStatus ? stored : [...new Set([...stored, ...storageVersions(draft)])]
    return withGeneration({ ...draft, status: { ...status, storedVersions: all } }, live)
  },
  validate: validateDefinition,
  warnings: () => [NOT_ENFORCED],
}

export function specOf(definition: Draft): DefinitionSpec {
  return definition.spec as DefinitionSpec
}

function storageVersions(definition: Draft): readonly string[] {
  const { versions = [] } = specOf(definition) as Partial<DefinitionSpec>
  return versions.filter(({ storage }) => storage).map(({ name }) => name)
}

function storedVersions(definition: Draft): readonly string[] {
  const { storedVersions = [] } = member(definition, 'status') as { readonly storedVersions?: readonly string[] }
  return storedVersions
}

function validateDefinition(draft: Draft, errors: FieldErrors, live: StoredObject | undefined): void {
  const { group, scope, names, versions = [] } = specOf(draft) as Partial<DefinitionSpec>
  if (!group) errors.required('spec.group')
  if (!names?.plural) errors.required('spec.names.plural')
  if (!names?.kind) errors.required('spec.names.kind')
  if (scope !== 'Cluster' && scope !== 'Namespaced') {
    errors.notSupported('spec.scope', scope ?? '', ['Cluster', 'Namespaced'])
  }
  const name = draft.metadata?.name
  if (group && names?.plural && name !== `${names.plural}.${group}`) {
    errors.invalid('metadata.name', name, 'must be spec.names.plural+"."+spec.group')
  }
  const labels = [
    ['plural', names?.plural],
    ['singular', names?.singular],
    ['kind', names?.kind?.toLowerCase()],
    ['listKind', names?.listKind?.toLowerCase()],
  ] as const
  // Upstream requires DNS labels for these names, and checks `kind` and `listKind` in lower case.
  for (const [field, text] of labels) checkName(text, `spec.names.${field}`, dns1035LabelFault, errors)
  if (group) {
    const dotFault = group.includes('.') ? undefined : 'should be a domain with at least one dot'
    errors.invalid('spec.group', group, dnsSubdomainFault(group) ?? dotFault)
  }
  if (live !== undefined) checkFixed(specOf(draft), specOf(live), errors)
  if (new Set(versions.map(({ name: versionName }) => versionName)).size < versions.length) {
    errors.invalid('spec.versions', versions, 'must contain unique version names')
  }
  if (versions.filter(({ storage }) => storage).length !== 1) {
    errors.invalid('spec.versions', versions, 'must have exactly one version marked as storage version')
    if (versions.length === 0) errors.invalid('status.storedVersions', null, 'must have at least one stored version')
  }
  if (draft.spec !== live?.spec) checkStoredVersions(draft, errors)
  // If all versions have the same subresources, upstream checks them once, at the path of an older API.
  const [first] = versions
  const isCommon = versions.every(({ subresources }) => equalJson(subresources, first?.subresources))
  for (const [index, version] of versions.entries()) {
    const { scale } = version.subresources ?? {}
    const at = isCommon ? 'spec' : `spec.versions[${index}]`
    if (scale !== undefined && (!isCommon || index === 0)) validateScale(scale, `${at}.subresources.scale`, errors)
    validateVersion(version, `spec.versions[${index}]`, errors)
  }
}

/** Refuses to remove a version in which objects may be stored. */
function checkStoredVersions(draft: Draft, errors: FieldErrors): void {
  const { versions = [] } = specOf(draft) as Partial<DefinitionSpec>
  const names = new Set(versions.map(({ name }) => name))
  for (const [index, name] of storedVersions(draft).entries()) {
    if (names.has(name)) continue
    const why = `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`
    errors.invalid(`status.storedVersions[${index}]`, name, why)
  }
}

function validateVersion(version: DefinitionVersion, path: string, errors: FieldErrors): void {
  if (!version.name) errors.required(`${path}.name`)
  checkName(version.name, `${path}.name`, dns1035LabelFault, errors)
  if (!isRecord(version.schema?.openAPIV3Schema)) {
    errors.required(`${path}.schema.openAPIV3Schema`, 'schemas are required')
  }
  for (const [index, column] of (version.additionalPrinterColumns ?? []).entries()) {
    const at = `${path}.additionalPrinterColumns[${index}]`
    if (!column.name) errors.required(`${at}.name`)
    if (!column.type) errors.required(`${at}.type`)
    else if (!columnTypes.includes(column.type)) errors.notSupported(`${at}.type`, column.type, columnTypes)
    checkPath(`${at}.jsonPath`, column.jsonPath, errors)
  }
  for (const [index, { jsonPath }] of (version.selectableFields ?? []).entries()) {
    checkPath(`${path}.selectableFields[${index}].jsonPath`, jsonPath, errors)
  }
}

function validateScale(scale: Partial<ScaleSubresource>, path: string, errors: FieldErrors): void {
  const { specReplicasPath, statusReplicasPath, labelSelectorPath } = scale
  checkPathBelow(`${path}.specReplicasPath`, specReplicasPath, ['.spec.'], 'under .spec', errors)
  checkPathBelow(`${path}.statusReplicasPath`, statusReplicasPath, ['.status.'], 'under .status', errors)
  if (!labelSelectorPath) return
  const either = 'under either .spec or .status'
  checkPathBelow(`${path}.labelSelectorPath`, labelSelectorPath, ['.spec.', '.status.'], either, errors)
}

function checkPathBelow(
  field: string,
  path: string | undefined,
  roots: readonly string[],
  where: string,
  errors: FieldErrors,
): void {
  if (!path) errors.required(field)
  else if (!path.startsWith('.')) errors.invalid(field, path, 'must be a simple json path starting with .')
  else if (!roots.some((root) => path.startsWith(root))) {
    errors.invalid(field, path, `should be a json path ${where}`)
  }
}

const columnTypes = ['boolean', 'date', 'integer', 'number', 'string']

function checkPath(field: string, path: string | undefined, errors: FieldErrors): void {
  if (!path) errors.required(field)
  else if (parseJsonPath(path) === undefined) errors.invalid(field, path, 'is an invalid or unsupported JSON path')
}

function checkFixed(spec: DefinitionSpec, live: DefinitionSpec, errors: FieldErrors): void {
  const fields = [
    ['spec.group', spec.group, live.group],
    ['spec.names.plural', spec.names?.plural, live.names.plural],
    ['spec.scope', spec.scope, live.scope],
    ['spec.names.kind', spec.names?.kind, live.names.kind],
  ] as const
  for (const [field, text, before] of fields) {
    if (text !== before) errors.invalid(field, text ?? '', 'field is immutable')
  }
}
