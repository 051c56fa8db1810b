import assert from 'node:assert/strict'
import { test } from '@jest/globals'
import { CoreV1Api, KubeConfig, type V1ConfigMap } from '@kubernetes/client-node'
import { type StartedApiServer, startApiServer } from 'apiserver-bootstrap/testing'
import { startCopier } from '../copier.ts'

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'test' } }
const metadata = { namespace: 'test', name: 'original', labels: { 'copy-to': 'copy' } }
const original = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { colour: 'blue' } }
const copy = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'test', name: 'copy' }

function configOf(server: StartedApiServer): KubeConfig {
  const config = new KubeConfig()
  config.loadFromString(server.kubeconfig)
  return config
}

test('the copy follows the original', async () => {
  await using server = await startApiServer({ objects: [namespace, original] })
  await using _copier = startCopier(configOf(server), 'test')
  const created = await server.waitFor<V1ConfigMap>(copy)
  assert.deepEqual(created?.data, { colour: 'blue' })

  const body = { ...original, data: { colour: 'red' } }
  await configOf(server)
    .makeApiClient(CoreV1Api)
    .replaceNamespacedConfigMap({ ...metadata, body })
  await server.waitFor<V1ConfigMap>(copy, (object) => object?.data?.colour === 'red')
})

test('a copy that is refused is tried again', async () => {
  await using server = await startApiServer({ objects: [namespace, original] })
  server.faults.add({ fault: { type: 'status', status: 503 }, methods: ['PATCH'], times: 2 })
  await using _copier = startCopier(configOf(server), 'test')
  await server.waitFor(copy)
})
