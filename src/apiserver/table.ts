import { apiVersionOf } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { ageColumn, type Column, nameColumn } from './columns.ts'
import type { Kind } from './kind.ts'
import { partialObject } from './partial-metadata.ts'
import type { StoredObject } from './store.ts'
import { eventsInForm, type WatchEvent } from './watch.ts'

/** A request for a Table instead of the objects themselves. `includeObject` says what comes with each row. */
export interface TableRequest {
  readonly as: 'Table'
  readonly includeObject: 'None' | 'Metadata' | 'Object'
}

/** The columns of a kind that declares none, as for a custom resource without printer columns. */
const plainColumns: readonly Column[] = [nameColumn, ageColumn]

/**
 * The events of a watch, with Tables instead of objects. A Table has one row, or none for a bookmark. Only the first
 * Table has columns.
 */
export function tableEvents(
  kind: Kind,
  events: AsyncIterable<WatchEvent>,
  request: TableRequest,
  clock: Clock,
): AsyncIterable<WatchEvent> {
  let withColumns = true
  return eventsInForm(events, ({ type, object }) => {
    const stored = object as StoredObject
    const objects = type === 'BOOKMARK' ? [] : [stored]
    const metadata = { resourceVersion: stored.metadata.resourceVersion }
    const table = tableOf({ kind, objects, metadata, nowMs: clock.wallMs() }, request, withColumns)
    withColumns = false
    return { type, object: table }
  })
}

/**
 * The Table of some objects. `metadata` is that of their list or, for one object, its resourceVersion. `withColumns` is
 * false for the events of a watch after the first.
 */
export function tableOf(
  { kind, objects, metadata, nowMs }: TableContents,
  { includeObject }: TableRequest,
  withColumns = true,
): object {
  const columns = kind.columns ?? plainColumns
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: withColumns ? columns.map(definitionOf) : null,
    rows: objects.map((object) => ({
      cells: columns.map(({ cell }) => cell(object, nowMs)),
      object:
        includeObject === 'None'
          ? null
          : includeObject === 'Object'
            ? complete(kind, object)
            : partialObject(object, 'meta.k8s.io/v1'),
    })),
  }
}

interface TableContents {
  readonly kind: Kind
  readonly objects: readonly StoredObject[]
  readonly metadata: object
  readonly nowMs: number
}

function definitionOf({ name, type = 'string', priority = 0 }: Column): object {
  return { name, type, format: name === 'Name' ? 'name' : '', description: '', priority }
}

/** The object with its kind and apiVersion. Items of a list lack these, but the objects of a Table have them. */
function complete({ resource }: Kind, object: StoredObject): object {
  return { ...object, kind: resource.kind, apiVersion: apiVersionOf(resource) }
}
