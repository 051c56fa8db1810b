import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/** A field of a message: its number and its value. A list of fields is a nested message. */
export type Part = readonly [number, string | number | Fixed | Buffer | readonly Part[]]

type Fixed = { readonly fixed32: number } | { readonly fixed64: number }

/** Fields of each wire type that no message of Kubernetes has. */
export const unknownParts: readonly Part[] = [
  [1001, 5],
  [1002, { fixed64: 6 }],
  [1003, 'of a newer server'],
  [1004, { fixed32: 7 }],
]

export function message(...parts: readonly Part[]): Buffer {
  const writer = new BinaryWriter()
  for (const [number, value] of parts) {
    if (typeof value === 'number') writer.tag(number, WireType.Varint).int64(value)
    else if (typeof value === 'string') writer.tag(number, WireType.LengthDelimited).string(value)
    else if ('fixed32' in value) writer.tag(number, WireType.Bit32).fixed32(value.fixed32)
    else if ('fixed64' in value) writer.tag(number, WireType.Bit64).fixed64(value.fixed64)
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
