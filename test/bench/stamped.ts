/** What is in stored bytes that another object of the kind has otherwise: text by text. */
export type Stamps = ReadonlyMap<string | Buffer, string | Buffer>

/** The same bytes with other marks: a protobuf value stays one as long as no length changes. */
export function stamped(value: Uint8Array, stamps: Stamps): Buffer {
  const copy = Buffer.from(value)
  for (const [old, fresh] of stamps) {
    const [from, to] = [Buffer.from(old), Buffer.from(fresh)]
    if (from.length !== to.length) throw new Error(`${fresh} is not as long as ${old}`)
    for (let at = copy.indexOf(from); at >= 0; at = copy.indexOf(from, at + from.length)) to.copy(copy, at)
  }
  return copy
}
