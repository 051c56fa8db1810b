/** The texts in stored bytes that differ in another object of the same kind, each with its replacement. */
export type Stamps = ReadonlyMap<string | Buffer, string | Buffer>

/** The same bytes with other marks. A protobuf value stays valid as long as no length changes. */
export function stamped(value: Uint8Array, stamps: Stamps): Buffer {
  const copy = Buffer.from(value)
  for (const [old, fresh] of stamps) {
    const [from, to] = [Buffer.from(old), Buffer.from(fresh)]
    if (from.length !== to.length) throw new Error(`${fresh} is not as long as ${old}`)
    for (let at = copy.indexOf(from); at >= 0; at = copy.indexOf(from, at + from.length)) to.copy(copy, at)
  }
  return copy
}
