import { create, type MessageInitShape } from '@bufbuild/protobuf'
import fc from 'fast-check'
import {
  type Endpoints,
  EndpointsSchema,
  type RangeAllocation,
  RangeAllocationSchema,
} from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import type { ObjectMetaSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'

// Random objects, in which every field is sometimes present. Integers stay in the range that JSON represents exactly,
// times within the years of RFC 3339.

const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.constantFrom('', 'kubernetes', '192.0.2.1'))
const int64 = fc.oneof(fc.maxSafeInteger().map(BigInt), fc.constantFrom(0n, 1n, -1n))
const time = fc.record({ seconds: fc.bigInt({ min: -62_135_596_799n, max: 253_402_300_799n }) })
/** Each key is there once, as in Go's maps. Some of the keys may have another meaning in a language. */
const entries = fc.uniqueArray(
  fc.record({
    key: fc.oneof(
      text,
      fc.constantFrom('0', '9', '10', '010', '-1', '__proto__', 'constructor', '\uffee', '\u{1f600}'),
    ),
    value: text,
  }),
  { selector: ({ key }) => key, maxLength: 5 },
)
const some = { requiredKeys: [] as [] }

const metadata: fc.Arbitrary<MessageInitShape<typeof ObjectMetaSchema>> = fc.record(
  {
    name: text,
    generateName: text,
    namespace: text,
    selfLink: text,
    uid: text,
    resourceVersion: text,
    generation: int64,
    creationTimestamp: time,
    deletionTimestamp: time,
    deletionGracePeriodSeconds: int64,
    labels: entries,
    annotations: entries,
    ownerReferences: fc.array(
      fc.record(
        {
          apiVersion: text,
          kind: text,
          name: text,
          uid: text,
          controller: fc.boolean(),
          blockOwnerDeletion: fc.boolean(),
        },
        some,
      ),
      { maxLength: 3 },
    ),
    finalizers: fc.array(text, { maxLength: 3 }),
    managedFields: fc.array(
      fc.record(
        {
          manager: text,
          operation: text,
          apiVersion: text,
          time,
          fieldsType: text,
          fieldsV1: fc.record({ Raw: fc.constant(Buffer.from('{"f:metadata":{"f:labels":{".":{}}}}')) }),
          subresource: text,
        },
        some,
      ),
      { maxLength: 3 },
    ),
  },
  some,
)

const address = fc.record(
  {
    ip: text,
    hostname: text,
    nodeName: text,
    targetRef: fc.record(
      { kind: text, namespace: text, name: text, uid: text, apiVersion: text, resourceVersion: text, fieldPath: text },
      some,
    ),
  },
  some,
)
const addresses = fc.array(address, { maxLength: 4 })
const port = fc.record({ name: text, port: fc.integer(), protocol: text, appProtocol: text }, some)
const subset = fc.record({ addresses, notReadyAddresses: addresses, ports: fc.array(port, { maxLength: 3 }) }, some)

export const randomEndpoints: fc.Arbitrary<Endpoints> = fc
  .record({ metadata, subsets: fc.array(subset, { maxLength: 3 }) }, some)
  .map((init) => create(EndpointsSchema, init))

export const randomRangeAllocations: fc.Arbitrary<RangeAllocation> = fc
  .record({ metadata, range: text, data: fc.uint8Array({ maxLength: 200 }) }, some)
  .map((init) => create(RangeAllocationSchema, init))
