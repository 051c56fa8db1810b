import {
  endpointSlices,
  endpoints,
  isAbsentOr,
  isListOf,
  isRecord,
  isText,
  type KubeObject,
  leases,
  qualifiedPlural,
  type Resource,
  services,
} from './resources.ts'

type Fields = Readonly<Record<string, unknown>>
type Shape = (object: Fields) => string | undefined

const isNumber = (value: unknown): boolean => typeof value === 'number'

type Check = readonly [isRight: (value: unknown) => boolean, type: string]

const text: Check = [isAbsentOr(isText), 'a string']
const texts: Check = [isAbsentOr(isListOf(isText)), 'a list of strings']
const objects: Check = [isAbsentOr(isListOf(isRecord)), 'a list of objects']

const shapes: ReadonlyMap<string, Shape> = new Map([
  [qualifiedPlural(endpoints), endpointsFault],
  [qualifiedPlural(endpointSlices), sliceFault],
  [qualifiedPlural(services), serviceFault],
  [qualifiedPlural(leases), leaseFault],
])

/**
 * How to find the first field of a received object of this resource that has a wrong type; its path without indexes and
 * its value not quoted, such as `subsets.addresses is not a list of objects`. Undefined if the resource has no such
 * check.
 *
 * Only fields that other code takes apart are checked: a wrong type there would count as a defect of this program, not
 * as a bad answer. A field may be absent, because protobuf and trimmed copies have no empty ones. A list may be null,
 * because Go writes an empty one so. There may be 100,000 Services in an answer, so a check is a few comparisons.
 */
export function shapeOf(resource: Resource<KubeObject>): Shape | undefined {
  return shapes.get(qualifiedPlural(resource))
}

function endpointsFault(object: Fields): string | undefined {
  const fault = fieldFault(object, 'subsets', objects)
  if (fault !== undefined) return fault
  for (const subset of listIn(object.subsets)) {
    const inSubset =
      fieldFault(subset, 'ports', objects, 'subsets.') ??
      addressesFault(subset, 'addresses') ??
      addressesFault(subset, 'notReadyAddresses')
    if (inSubset !== undefined) return inSubset
  }
  return undefined
}

function addressesFault(subset: Fields, field: string): string | undefined {
  const fault = fieldFault(subset, field, objects, 'subsets.')
  if (fault !== undefined) return fault
  return listIn(subset[field]).every(({ ip }) => isText(ip)) ? undefined : `subsets.${field}.ip is not a string`
}

function sliceFault(object: Fields): string | undefined {
  const fault = fieldFault(object, 'endpoints', objects) ?? fieldFault(object, 'ports', objects)
  if (fault !== undefined) return fault
  for (const endpoint of listIn(object.endpoints)) {
    const inEndpoint = fieldFault(endpoint, 'addresses', texts, 'endpoints.')
    if (inEndpoint !== undefined) return inEndpoint
  }
  return undefined
}

function serviceFault({ spec }: Fields): string | undefined {
  if (spec === undefined) return undefined
  if (!isRecord(spec)) return 'spec is not an object'
  return (
    fieldFault(spec, 'ports', objects, 'spec.') ??
    fieldFault(spec, 'clusterIPs', texts, 'spec.') ??
    fieldFault(spec, 'clusterIP', text, 'spec.') ??
    fieldFault(spec, 'ipFamilies', texts, 'spec.')
  )
}

function leaseFault({ spec }: Fields): string | undefined {
  if (spec === undefined || spec === null) return undefined
  if (!isRecord(spec)) return 'spec is not an object'
  return (
    fieldFault(spec, 'leaseDurationSeconds', [isAbsentOr(isNumber), 'a number'], 'spec.') ??
    fieldFault(spec, 'holderIdentity', text, 'spec.') ??
    fieldFault(spec, 'renewTime', text, 'spec.')
  )
}

function fieldFault(object: Fields, field: string, [isRight, type]: Check, prefix = ''): string | undefined {
  return isRight(object[field]) ? undefined : `${prefix}${field} is not ${type}`
}

/** The items of a list that {@link objects} has accepted. */
function listIn(value: unknown): readonly Fields[] {
  return (value ?? []) as readonly Fields[]
}
