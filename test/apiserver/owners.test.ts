import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from './embedded.ts'

const maps = '/api/v1/namespaces/default/configmaps'
const map = `${maps}/a`

interface Entry {
  readonly manager: string
  readonly operation: string
  readonly fieldsV1: Readonly<Record<string, Readonly<Record<string, object>>>>
}

async function ownersOf(embedded: Embedded): Promise<readonly Entry[]> {
  return (await embedded.send('GET', map)).body.metadata.managedFields
}

test('of many managers that update the oldest become one, and nothing is without an owner', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=creator`, { metadata: { name: 'a' }, data: { first: '1' } })
  for (let index = 0; index < 30; index++) {
    await embedded.time.advance(1000)
    const body = { data: { [`key-${index}`]: 'x' } }
    const path = `${map}?fieldManager=m${index}`
    assert.equal((await embedded.send('PATCH', path, body, 'application/merge-patch+json')).status, 200)
  }
  const owners = await ownersOf(embedded)
  assert.deepEqual(
    owners.map(({ manager }) => manager),
    ['ancient-changes', ...Array.from({ length: 9 }, (_, index) => `m${index + 21}`)],
  )
  const owned = owners.flatMap(({ fieldsV1 }) => Object.keys(fieldsV1['f:data'] ?? {}))
  assert.equal(owned.filter((step) => step.startsWith('f:')).length, 31)
})

test('entries with steps that nobody writes are ignored, and later writes work', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=creator`, { metadata: { name: 'a' }, data: { x: '1' } })
  const before = await ownersOf(embedded)
  for (const fieldsV1 of [{ constructor: {} }, { 'k:[1]': {} }, { 'v:{': {} }, { 'i:a': {} }, { 'f:a': { x: {} } }]) {
    const managedFields = [{ manager: 'other', operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }]
    const body = { metadata: { name: 'a', managedFields }, data: { x: '1' } }
    assert.equal((await embedded.send('PUT', `${map}?fieldManager=creator`, body)).status, 200)
    assert.deepEqual(await ownersOf(embedded), before)
  }
  const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { x: '2' } }
  const { status, body } = await embedded.send(
    'PATCH',
    `${map}?fieldManager=m`,
    applied,
    'application/apply-patch+yaml',
  )
  assert.deepEqual(
    [status, body.message],
    [409, 'Apply failed with 1 conflict: conflict with "creator" using v1: .data.x'],
  )
})
