import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import fc from 'fast-check'
import type { Endpoints } from '../../src/kube/resources.ts'
import { EndpointsSchema, RangeAllocationSchema } from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import { kindMessages } from '../../src/protobuf/go-fields.ts'
import { jsonOfProtobuf } from '../../src/protobuf/go-json.ts'
import { asGoWrites } from '../../src/protobuf/go-message.ts'
import { decodeMasterLease, encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { decodeRangeAllocation, encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { decodeStored, encodeStored, type StoredKind } from '../../src/protobuf/stored-object.ts'
import { trimNode, trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { listedIn, paths } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { goFields, goMakes, goReads } from '../peers/stored-bytes.ts'
import { storedValues, storeValue } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'
import { message } from '../protobuf/message.ts'
import { randomEndpoints, randomRangeAllocations } from '../protobuf/random-objects.ts'
import { servedObject, withoutEmpty } from '../protobuf/served-object.ts'

const seed = 20_260_801
const count = 1000
/** How many objects of each kind that is read as protobuf. */
const trimmedCount = Number(process.env.TRIMMED_OBJECTS ?? 1000)

const endpoints: StoredKind<typeof EndpointsSchema> = { apiVersion: 'v1', kind: 'Endpoints', schema: EndpointsSchema }
const rangeAllocation: StoredKind<typeof RangeAllocationSchema> = {
  apiVersion: 'v1',
  kind: 'RangeAllocation',
  schema: RangeAllocationSchema,
}

/** Returns the message in a value, and asserts that it is written back as it is. */
function readExactly<Desc extends DescMessage>(kind: StoredKind<Desc>, value: Buffer): MessageShape<Desc> {
  const stored = decodeStored(kind, value)
  if (stored.type !== 'protobuf') assert.fail(`${stored.type}: ${value.toString('hex')}`)
  assert.deepEqual(Buffer.from(encodeStored(kind, stored.object, stored.envelope)), value)
  return stored.object
}

describe('stored values and the Go code of Kubernetes', () => {
  const suite = <Desc extends DescMessage>(kind: StoredKind<Desc>, random: fc.Arbitrary<MessageShape<Desc>>): void => {
    test(`Go decodes ${count} random ${kind.kind} of this program to the same objects and encodes them to the same bytes`, async (t) => {
      const objects = fc.sample(random, { seed, numRuns: count }).map((object) => asGoWrites(kind.schema, object))
      const values = objects.map((object) => Buffer.from(encodeStored(kind, object)))
      const readings = await goReads(openOwner(t), values)
      for (const [index, reading] of readings.entries()) {
        if (reading.error !== undefined) assert.fail(reading.error)
        assert.deepEqual(withoutEmpty(reading.object), servedObject(kind, objects[index] as MessageShape<Desc>))
        assert.deepEqual(reading.encoded, values[index])
      }
    })

    test(`${count} random ${kind.kind} that Go encodes are decoded and encoded again byte for byte`, async (t) => {
      for (const value of await goMakes(openOwner(t), `v1 ${kind.kind}`, seed, count)) {
        const object = readExactly(kind, value)
        assert.deepEqual(Buffer.from(encodeStored(kind, asGoWrites(kind.schema, object))), value)
      }
    })
  }
  suite(endpoints, randomEndpoints)
  suite(rangeAllocation, randomRangeAllocations)

  test('the fields in go-fields.ts are those of the Go types', async (t) => {
    const written = await readFile(new URL('../../src/protobuf/go-fields.ts', import.meta.url), 'utf8')
    assert.equal(
      await goFields(openOwner(t)),
      written,
      'run: test/peers/bin/stored-bytes fields > src/protobuf/go-fields.ts',
    )
  })

  for (const kind of Object.keys(kindMessages)) {
    test(`100 random ${kind} that Go encodes as protobuf are decoded to the same JSON as by Go`, async (t) => {
      const values = await goMakes(openOwner(t), kind, seed, 100)
      for (const [index, reading] of (await goReads(openOwner(t), values)).entries()) {
        if (reading.error !== undefined) assert.fail(reading.error)
        assert.deepEqual(withoutNothing(jsonOfProtobuf(values[index] as Buffer)), withoutNothing(reading.object))
      }
    })
  }

  for (const [kind, trim] of Object.entries({ 'v1 Pod': trimPod, 'v1 Node': trimNode, 'v1 Service': trimService })) {
    test(`the trimmed copies of ${trimmedCount} random ${kind} are the same from protobuf and from JSON`, async (t) => {
      for (let batch = 0; batch < trimmedCount / 500; batch++) {
        const values = await goMakes(openOwner(t), kind, seed + batch, 500)
        for (const [index, reading] of (await goReads(openOwner(t), values)).entries()) {
          if (reading.error !== undefined) assert.fail(reading.error)
          const event = message([1, 'ADDED'], [2, [[1, values[index] as Buffer]]])
          const { object } = trim.protobuf.event(event) as { readonly object: never }
          assert.deepEqual(withoutNothing(trim(object)), withoutNothing(trim(reading.object as never)))
        }
      }
    })
  }

  test('Go decodes every fuzzed value that this program decodes', async (t) => {
    const originals = (await goMakes(openOwner(t), 'v1 Endpoints', seed, 200)).filter(({ length }) => length < 1000)
    const changes = fc.tuple(fc.constantFrom(...originals), fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
      const changed = Buffer.from(value)
      changed[at % changed.length] = byte
      return changed
    })
    const changed = fc.sample(changes, { seed, numRuns: 10_000 })
    const readable = changed.filter((value) => decodeStored(endpoints, value).type === 'protobuf')
    assert.ok(readable.length > 1000, `${readable.length}`)
    for (const [index, { error }] of (await goReads(openOwner(t), readable)).entries()) {
      assert.equal(error, undefined, readable[index]?.toString('hex'))
    }
  })

  test('a lease that this program renews has the bytes that Go would encode', async (t) => {
    const values = [encodeMasterLease('192.0.2.1'), encodeMasterLease('2001:db8::1')]
    for (let renewal = 0; renewal < 300; renewal++) {
      const previous = decodeMasterLease(values.at(-1) as Uint8Array)
      if (previous.type !== 'protobuf') assert.fail(previous.type)
      values.push(encodeMasterLease('2001:db8::1', previous))
    }
    for (const [index, reading] of (await goReads(openOwner(t), values)).entries()) {
      if (reading.error !== undefined) assert.fail(reading.error)
      assert.deepEqual(reading.encoded, Buffer.from(values[index] as Uint8Array))
    }
  })
})

/** Without null and without empty lists and objects: Go may have them or not, and a server treats them as absent. */
function withoutNothing(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNothing(item) ?? {})
  if (value === null || typeof value !== 'object') return value ?? undefined
  const members = Object.entries(value).map(([name, member]) => [name, withoutNothing(member)] as const)
  const full = members.filter(
    ([, member]) => member !== undefined && !(typeof member === 'object' && Object.keys(member as object).length === 0),
  )
  return Object.fromEntries(full)
}

describe('values of a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let cluster: Cluster

  const stored = (key: string): Promise<Buffer> =>
    untilPasses(
      key,
      async () => {
        const value = (await storedValues(cluster.etcd, key)).get(key)
        if (value === undefined) throw new Error('not there')
        return value
      },
      { withinMs: 30_000 },
    )
  const createNodePort = (name: string, nodePort: number) =>
    cluster.server.api.send('POST', paths.services, {
      body: { metadata: { name }, spec: { type: 'NodePort', ports: [{ port: 80, nodePort }] } },
    })

  before(async () => {
    cluster = await startCluster(owner, { kind: 'stock', advertiseAddress: '192.0.2.7' })
  })

  test('its lease is decoded and equals the lease that this program would write', async () => {
    const value = await stored('/registry/masterleases/192.0.2.7')
    readExactly(endpoints, value)
    const lease = decodeMasterLease(value)
    if (lease.type !== 'protobuf') assert.fail(lease.type)
    assert.equal(lease.address, '192.0.2.7')
    let ours = encodeMasterLease('192.0.2.7')
    for (let generation = 1n; generation < lease.generation; generation++) {
      const previous = decodeMasterLease(ours)
      if (previous.type === 'protobuf') ours = encodeMasterLease('192.0.2.7', previous)
    }
    assert.deepEqual(Buffer.from(ours), value)
  })

  test('it lists a lease that this program writes', async () => {
    await storeValue(cluster.etcd, '/registry/masterleases/192.0.2.8', encodeMasterLease('192.0.2.8'))
    await untilPasses(
      'both addresses',
      async () => assert.deepEqual(listedIn(await cluster.server.api.get(paths.endpoints)), ['192.0.2.7', '192.0.2.8']),
      { withinMs: 30_000 },
    )
  })

  test('its Endpoints, with managedFields and labels, are written back byte for byte', async () => {
    const value = await stored('/registry/services/endpoints/default/kubernetes')
    const object = readExactly(endpoints, value)
    assert.ok((object.metadata?.managedFields.length ?? 0) > 0)
    assert.deepEqual(Buffer.from(encodeStored(endpoints, asGoWrites(EndpointsSchema, object))), value)
    const { resourceVersion: _, ...served } = (await cluster.server.api.get<Endpoints>(paths.endpoints)).metadata ?? {}
    assert.deepEqual(servedObject(endpoints, object).metadata, withoutEmpty({ ...served }))
  })

  test('its bitmap of NodePorts is decoded, and it respects a bitmap that this program writes', async () => {
    const key = '/registry/ranges/servicenodeports'
    await stored(key)
    assert.equal((await createNodePort('a', 30_001)).status, 201)
    const value = await stored(key)
    readExactly(rangeAllocation, value)
    const before = decodeRangeAllocation(value)
    if (before.type !== 'protobuf') assert.fail(before.type)
    assert.equal(before.range, '30000-32767')
    assert.deepEqual(Buffer.from(before.data), Buffer.of(0b10))

    await storeValue(
      cluster.etcd,
      key,
      encodeRangeAllocation({ range: before.range, data: Buffer.of(0b1, 0b110) }, before),
    )
    assert.equal((await createNodePort('b', 30_002)).status, 422)
    assert.equal((await createNodePort('b', 30_008)).status, 422)
    assert.equal((await createNodePort('c', 30_003)).status, 201)
    const now = decodeRangeAllocation(await stored(key))
    if (now.type !== 'protobuf') assert.fail(now.type)
    assert.deepEqual(Buffer.from(now.data), Buffer.of(0b1, 0b1110))
  })
})
