import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../../src/kube/resources.ts'
import { services } from '../../src/kube/resources.ts'
import { added, ScriptedApi, service } from './scripted-api.ts'

test('ScriptedApi copies the objects of requests, answers and watch events', async () => {
  const api = new ScriptedApi()
  const [sent, answered, watched] = ['1', '2', '3'].map((version) => service('web', version)) as [
    KubeObject,
    KubeObject,
    KubeObject,
  ]
  api.answer = () => answered
  const got = await api.create(services, sent)
  assert.deepEqual(got, answered)
  assert.notEqual(got.metadata, answered.metadata)
  const [asked] = api.asked
  const { metadata } = (asked?.of ?? {}) as KubeObject
  assert.deepEqual(metadata, sent.metadata)
  assert.notEqual(metadata, sent.metadata)
  api.onWatch = (watch) => void watch.open().send(added(watched))
  const { signal } = new AbortController()
  for await (const { object } of api.watch(services, { signal })) {
    assert.deepEqual(object, watched)
    assert.notEqual(object.metadata, watched.metadata)
    break
  }
})
