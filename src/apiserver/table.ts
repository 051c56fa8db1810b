import { apiVersionOf } from '../kube/resources.ts'
import type { ApiResponse } from '../kube/transport.ts'
import type { Clock } from '../runtime/clock.ts'
import { inForm, listMetadata } from './answer-forms.ts'
import { ageColumn, type Column, nameColumn } from './columns.ts'
import type { Spend } from './json-path.ts'
import type { Kind } from './kind.ts'
import { partialObject } from './partial-metadata.ts'
import { internalError } from './refusal.ts'
import type { StoredObject } from './store.ts'
import type { WatchEvent } from './watch.ts'

/** A request for a Table instead of the objects themselves. `includeObject` determines what comes with each row. */
export interface TableRequest {
  readonly as: 'Table'
  readonly includeObject: 'None' | 'Metadata' | 'Object'
}

/** The columns of a kind that declares none. */
const plainColumns: readonly Column[] = [nameColumn, ageColumn]

/**
 * Converts the objects of an answer to Tables. `isList`: the answer is a list. In a watch, each event has a Table with
 * one row, or with none for a bookmark; only the first Table has `columnDefinitions`.
 */
export function tableResponse(
  kind: Kind,
  response: ApiResponse,
  { includeObject }: TableRequest,
  isList: boolean,
  clock: Clock,
): ApiResponse {
  const columns = kind.columns ?? plainColumns
  let columnDefinitions: readonly object[] | null = columns.map(definitionOf)
  const tableOf = (objects: readonly StoredObject[], metadata: object): object => {
    const nowMs = clock.wallMs()
    let left = STEPS_PER_TABLE + objects.length * STEPS_PER_ROW
    const spend: Spend = (steps) => {
      left -= steps
      if (left < 0) throw internalError('the printer columns of these objects take too long to compute')
    }
    const rows = objects.map((object) => ({
      cells: columns.map(({ cell }) => {
        spend(1)
        return cell(object, nowMs, spend)
      }),
      object: shownIn(includeObject, kind, object),
    }))
    const table = { kind: 'Table', apiVersion: META, metadata, columnDefinitions, rows }
    columnDefinitions = null
    return table
  }
  const ofEvent = ({ type, object }: WatchEvent): object =>
    tableOf(type === 'BOOKMARK' ? [] : [object as StoredObject], versionOf(object as StoredObject))
  return inForm(response, ofEvent, (body) => {
    return isList ? tableOf(body.items, listMetadata(body)) : tableOf([body], versionOf(body))
  })
}

/**
 * The cells of a Table may take this many steps, see {@link Spend}. Thousands of columns could search long lists and
 * contain long texts, and would delay all requests.
 */
const STEPS_PER_TABLE = 1_000_000
const STEPS_PER_ROW = 10_000

const META = 'meta.k8s.io/v1'

/** The metadata of the Table of one object or of a bookmark. */
function versionOf({ metadata: { resourceVersion } }: StoredObject): object {
  return { resourceVersion }
}

/** What comes with a row. Items of a list lack kind and apiVersion, but the objects of a Table have them. */
function shownIn(included: TableRequest['includeObject'], { resource }: Kind, object: StoredObject): object | null {
  if (included === 'None') return null
  if (included === 'Metadata') return partialObject(object, META)
  return { ...object, kind: resource.kind, apiVersion: apiVersionOf(resource) }
}

function definitionOf({ name, type = 'string', priority = 0 }: Column): object {
  return { name, type, format: name === 'Name' ? 'name' : '', description: '', priority }
}
