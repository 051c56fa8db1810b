import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fencedApi } from '../../src/kube/fenced-api.ts'
import { configMaps } from '../../src/kube/resources.ts'
import { Embedded } from '../apiserver/embedded.ts'

test('who may not write reads all the same, and each write is asked for at its own instant', async () => {
  const { api } = await Embedded.started(['10.96.0.0/16'])
  let leads = true
  const fenced = fencedApi(api, () => leads)
  const ref = { namespace: 'default', name: 'a' }
  const made = await fenced.create(configMaps, { metadata: ref, data: { x: '1' } })
  leads = false
  const writes = [
    () => fenced.create(configMaps, { metadata: { ...ref, name: 'b' } }),
    () => fenced.update(configMaps, { ...made, data: { x: '2' } }),
    () => fenced.patch(configMaps, ref, { type: 'merge', body: { data: { x: '2' } } }),
    () => fenced.delete(configMaps, ref),
  ]
  for (const write of writes) await assert.rejects(write, { code: 'Unreachable' })
  assert.deepEqual((await fenced.get(configMaps, ref)).data, { x: '1' })
  assert.equal((await fenced.list(configMaps, { namespace: 'default' })).items.length, 1)
  leads = true
  for (const write of writes) await write()
  assert.deepEqual(
    (await api.list(configMaps, { namespace: 'default' })).items.map(({ metadata }) => metadata?.name),
    ['b'],
  )
})
