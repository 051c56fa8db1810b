import { isRecord, type KubeObject, type Resource } from '../../kube/resources.ts'
import { ageColumn, type Column, nameColumn } from '../columns.ts'
import { ownMember } from '../decode.ts'
import { goText, goTypeOf } from '../go-text.ts'
import { type Draft, type Kind, type Members, member, type ScalePaths } from '../kind.ts'
import { checkTarget } from '../object-meta.ts'
import { badRequest, cannotDecode, internalError, internalErrorOccurred } from '../refusal.ts'
import * as s from '../schema.ts'
import type { StoredObject } from '../store.ts'

const resource: Resource<KubeObject> = {
  group: 'autoscaling',
  version: 'v1',
  plural: 'scales',
  kind: 'Scale',
  namespaced: true,
}

/**
 * An autoscaling/v1 Scale: the replicas of a custom resource, which clients read and write at its subresource `scale`.
 */
export const scaleKind: Kind = {
  resource,
  schema: s.kindSchema({
    spec: s.object({ replicas: s.integer }),
    status: s.object({ replicas: s.integer, selector: s.optionalString }),
  }),
  columns: [
    nameColumn,
    replicasColumn('Desired', 'spec'),
    replicasColumn('Available', 'status'),
    { ...ageColumn, type: 'date' },
  ],
  withoutUnknown(draft) {
    const unknown: string[] = []
    const only = (value: unknown, path: string, names: readonly string[]): unknown => {
      if (!isRecord(value)) return value
      unknown.push(...Object.keys(value).flatMap((name) => (names.includes(name) ? [] : [path + name])))
      return Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)))
    }
    const known = only(draft, '', ['kind', 'apiVersion', 'metadata', 'spec', 'status']) as Members
    const spec = only(known.spec, 'spec.', ['replicas'])
    const status = only(known.status, 'status.', ['replicas', 'selector'])
    return { known: { ...known, spec, status }, unknown }
  },
}

function replicasColumn(name: string, part: string): Column {
  return { name, type: 'integer', cell: (scale) => Number(member(scale, part).replicas ?? 0) }
}

/**
 * Stands for the replicas of an object that has none: the smallest int32, which no client sends as a number of
 * replicas.
 */
const NO_REPLICAS = -2_147_483_648
export const MAX_REPLICAS = 2_147_483_647

/**
 * The Scale of an object.
 * @throws Refusal 500 if the object has no desired replicas, or a value of the wrong type at a path
 */
export function scaleOf(paths: ScalePaths, live: StoredObject): StoredObject {
  const scale = anyScaleOf(paths, live)
  if (valueAt(live, paths.specReplicas) === undefined) {
    throw internalErrorOccurred(`the spec replicas field ${JSON.stringify(textOf(paths.specReplicas))} does not exist`)
  }
  return scale
}

/** As {@link scaleOf}, but the spec is empty if the object has no desired replicas. */
function anyScaleOf({ specReplicas, statusReplicas, labelSelector }: ScalePaths, live: StoredObject): StoredObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = live.metadata
  const desired = numberAt(live, specReplicas) ?? NO_REPLICAS
  const selector = labelSelector === undefined ? undefined : valueAt(live, labelSelector)
  if (selector !== undefined && typeof selector !== 'string') throw wrongType(labelSelector ?? [], selector, 'string')
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), uid, resourceVersion, creationTimestamp },
    spec: desired === 0 || desired === NO_REPLICAS ? {} : { replicas: desired },
    status: { replicas: numberAt(live, statusReplicas) ?? 0, ...(selector ? { selector } : {}) },
  } as StoredObject
}

/**
 * The Scale that a patch changes. If the object has no desired replicas, the Scale has {@link NO_REPLICAS}.
 * @throws Refusal 500
 */
export function scaleToPatch(paths: ScalePaths, live: StoredObject): StoredObject {
  const scale = anyScaleOf(paths, live)
  return valueAt(live, paths.specReplicas) === undefined ? { ...scale, spec: { replicas: NO_REPLICAS } } : scale
}

/**
 * The object with the replicas of a Scale, and with the resourceVersion and uid that the Scale names; by default those
 * of `live`.
 * @throws Refusal 400 or 500
 */
export function scaled(paths: ScalePaths, live: StoredObject, scale: Draft): Draft {
  checkTarget(scale, live.metadata.namespace, live.metadata.name)
  const replicas = Number(member(scale, 'spec').replicas ?? 0)
  if (replicas === NO_REPLICAS) {
    throw badRequest(`the spec replicas field ${JSON.stringify(textOf(paths.specReplicas))} cannot be empty`)
  }
  if (replicas < NO_REPLICAS || replicas > MAX_REPLICAS) {
    const what = `json: cannot unmarshal number ${replicas} into Go struct field ScaleSpec.spec.replicas of type int32`
    throw cannotDecode(resource, what)
  }
  const { resourceVersion = live.metadata.resourceVersion, uid = live.metadata.uid } = scale.metadata ?? {}
  const changed = withValue(live, paths.specReplicas, replicas, [])
  return { ...changed, metadata: { ...live.metadata, resourceVersion, uid } }
}

function withValue(container: Members, path: readonly string[], value: unknown, above: readonly string[]): Members {
  const [name = '', ...rest] = path
  if (rest.length === 0) return { ...container, [name]: value }
  const inner = ownMember(container, name) ?? {}
  const here = [...above, name]
  if (!isRecord(inner))
    throw internalError(`value cannot be set because ${textOf(here)} is not a map[string]interface{}`)
  return { ...container, [name]: withValue(inner, rest, value, here) }
}

function valueAt(live: StoredObject, path: readonly string[]): unknown {
  return path.reduce((value: unknown, name, index) => {
    if (value === undefined || isRecord(value)) return value === undefined ? value : ownMember(value, name)
    throw wrongType(path.slice(0, index), value, 'map[string]interface{}')
  }, live)
}

function numberAt(live: StoredObject, path: readonly string[]): number | undefined {
  const value = valueAt(live, path)
  if (value === undefined || Number.isSafeInteger(value)) return value as number | undefined
  throw wrongType(path, value, 'int64')
}

function wrongType(path: readonly string[], value: unknown, expected: string): Error {
  const given = `${goText(value)} is of the type ${goTypeOf(value)}`
  return internalError(`${textOf(path)} accessor error: ${given}, expected ${expected}`)
}

function textOf(path: readonly string[]): string {
  return `.${path.join('.')}`
}
