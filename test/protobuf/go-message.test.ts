import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { EndpointPortSchema, EndpointsSchema } from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import {
  ObjectMetaSchema,
  TimeSchema,
} from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'
import { asGoWrites } from '../../src/protobuf/go-message.ts'

test('an empty field is written if it is a value in Go, and omitted if it is a pointer', () => {
  const port = asGoWrites(EndpointPortSchema, create(EndpointPortSchema))
  assert.equal(Buffer.from(toBinary(EndpointPortSchema, port)).toString('hex'), '0a0010001a00')
})

test('a non-zero Time is written with all its fields, a zero Time with none', () => {
  assert.equal(toBinary(TimeSchema, asGoWrites(TimeSchema, create(TimeSchema))).length, 0)
  const time = asGoWrites(TimeSchema, create(TimeSchema, { seconds: 1n }))
  assert.equal(Buffer.from(toBinary(TimeSchema, time)).toString('hex'), '08011000')
})

test('map entries are sorted by the bytes of their keys', () => {
  const sorted = ['', '-1', '010', '10', '9', '__proto__', 'a', '\uffee', '\u{1f600}']
  const labels = sorted.toReversed().map((key) => ({ key, value: key }))
  const metadata = asGoWrites(ObjectMetaSchema, create(ObjectMetaSchema, { labels }))
  assert.deepEqual(
    metadata.labels.map(({ key }) => key),
    sorted,
  )
})

test('the given message is not modified', () => {
  const message = create(EndpointsSchema, { metadata: { labels: [{ key: 'b' }, { key: 'a' }] } })
  asGoWrites(EndpointsSchema, message)
  assert.deepEqual(message, create(EndpointsSchema, { metadata: { labels: [{ key: 'b' }, { key: 'a' }] } }))
})
