import type { KubeObject } from './resources.ts'

/** The last writer of an object, according to `metadata.managedFields`. */
interface LastWriter {
  /** The field manager, such as `kubectl-edit`. */
  readonly manager: string
  readonly operation: 'Update' | 'Apply'
  /** RFC 3339 in whole seconds, by the server's clock; undefined if the server gives none. */
  readonly time: string | undefined
}

/** A set of fields in the form of metav1.FieldsV1; an empty set under a name covers everything below it. */
interface FieldSet {
  readonly [step: string]: FieldSet
}

interface Entry extends LastWriter {
  readonly fields: FieldSet
}

/**
 * Which field manager changed an object from `before` to `after`; undefined if that cannot be determined. Writes of the
 * status are ignored.
 *
 * A writer owns the fields that it has changed. So the entry of the writer is new, has a new time, or has gained
 * fields. The newest such entry counts. A second write by one manager within one second may change no entry. In that
 * case the result is the owner of a list or value that was replaced as a whole. A patch that only removes fields leaves
 * no trace, and neither does a deletion.
 *
 * @param before - undefined if it is unknown or was another object.
 */
export function writerBetween(before: KubeObject | undefined, after: KubeObject): LastWriter | undefined {
  const known = before === undefined ? [] : entriesOf(before)
  const entries = entriesOf(after)
  const changed = entries.filter((entry) => {
    const old = known.find(({ manager, operation }) => manager === entry.manager && operation === entry.operation)
    return old === undefined || old.time !== entry.time || gained(old.fields, entry.fields)
  })
  const newest = changed.reduce<Entry | undefined>(
    (latest, entry) => (latest === undefined || (entry.time ?? '') >= (latest.time ?? '') ? entry : latest),
    undefined,
  )
  const writer = newest ?? (before === undefined ? undefined : ownerOfReplaced(before, after, entries))
  return writer === undefined ? undefined : { manager: writer.manager, operation: writer.operation, time: writer.time }
}

/** The manager that owns, as a whole, a top-level list or value that differs from before. */
function ownerOfReplaced(before: KubeObject, after: KubeObject, entries: readonly Entry[]): Entry | undefined {
  const [old, now] = [before, after] as unknown as readonly Record<string, unknown>[]
  return entries.find(({ fields }) =>
    Object.keys(fields).some((step) => {
      const name = step.slice('f:'.length)
      const isWhole = Object.keys(fields[step] ?? {}).length === 0
      return isWhole && now?.[name] !== undefined && JSON.stringify(now[name]) !== JSON.stringify(old?.[name])
    }),
  )
}

function entriesOf(object: KubeObject): readonly Entry[] {
  return (object.metadata?.managedFields ?? []).flatMap((each) => {
    const { manager, operation, time, subresource, fieldsV1 } = each as Readonly<Record<string, unknown>>
    if (typeof manager !== 'string' || subresource === 'status') return []
    return [
      {
        manager,
        operation: operation === 'Apply' ? ('Apply' as const) : ('Update' as const),
        time: typeof time === 'string' ? time : undefined,
        fields: (fieldsV1 ?? {}) as FieldSet,
      },
    ]
  })
}

/** Whether `after` has a field that `before` lacks. */
function gained(before: FieldSet, after: FieldSet): boolean {
  return Object.keys(after).some((step) => {
    const old = before[step]
    return old === undefined || gained(old, after[step] ?? {})
  })
}
