import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/** A field of a message: its number and its value. A list of fields is a nested message. */
export type Part = readonly [number, string | number | Buffer | readonly Part[]]

export function message(...parts: readonly Part[]): Buffer {
  const writer = new BinaryWriter()
  for (const [number, value] of parts) {
    if (typeof value === 'number') writer.tag(number, WireType.Varint).int64(value)
    else if (typeof value === 'string') writer.tag(number, WireType.LengthDelimited).string(value)
    else {
      const bytes = Buffer.isBuffer(value) ? value : message(...(value as readonly Part[]))
      writer.tag(number, WireType.LengthDelimited).bytes(bytes)
    }
  }
  return Buffer.from(writer.finish())
}

/** An object as it is sent: in runtime.Unknown, after its prefix. */
export function enveloped(apiVersion: string, kind: string, raw: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from('k8s\0'),
    message(
      [
        1,
        [
          [1, apiVersion],
          [2, kind],
        ],
      ],
      [2, raw],
    ),
  ])
}
