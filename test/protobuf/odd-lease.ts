import { create, toBinary } from '@bufbuild/protobuf'
import { EndpointsSchema } from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import { UnknownSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'

/** A master's lease with an unknown field, in a place where it would not be written again. */
export function withOddField(address: string): Buffer {
  const object = toBinary(EndpointsSchema, create(EndpointsSchema, { subsets: [{ addresses: [{ ip: address }] }] }))
  const raw = Buffer.concat([Buffer.of(0xfa, 0x3e, 3, 1, 2, 3), object])
  const typeMeta = { apiVersion: 'v1', kind: 'Endpoints' }
  return Buffer.concat([Buffer.from('k8s\0'), toBinary(UnknownSchema, create(UnknownSchema, { typeMeta, raw }))])
}
