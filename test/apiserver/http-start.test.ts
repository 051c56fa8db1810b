import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { RefusedObject, type StartApiServerOptions, startApiServer } from '../../src/apiserver/http-start.ts'
import { tempDir } from '../support/temp-dir.ts'

const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: 'default' } }
const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }
const containers = [{ name: 'c', image: 'i' }]
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

async function started(t: TestContext, options: StartApiServerOptions = {}) {
  const server = await startApiServer(options)
  t.after(() => server.close())
  return server
}

test('a kubeconfig goes with its server, and the file of one that ended badly is replaced, but no other', async (t) => {
  const file = join(await tempDir(t), 'kubeconfig')
  const [first, second] = [await started(t), await started(t)]
  await first.writeKubeconfig(file)
  // As if the first had been killed.
  await second.writeKubeconfig(file)
  assert.ok(readFileSync(file, 'utf8').includes(second.url))
  await second.close()
  assert.equal(existsSync(file), false)
  writeFileSync(file, 'mine')
  await assert.rejects(first.writeKubeconfig(file), { code: 'EEXIST' })
  await first.close()
  assert.equal(readFileSync(file, 'utf8'), 'mine')
})

test('objects exist from the start with their status', async (t) => {
  const status = { phase: 'Running', podIP: '10.0.0.1' }
  const objects = [namespace, { ...pod, spec: { containers }, status }]
  const server = await started(t, { objects })
  const seeded = await server.waitFor<{ readonly status: object }>({ ...pod, ...pod.metadata })
  assert.deepEqual({ ...seeded?.status, ...status }, seeded?.status)
})

test('definitions are objects or YAML, and what is neither is named', async (t) => {
  const thing = { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'a', namespace: 'default' } }
  const server = await started(t, { crds: [definition], objects: [namespace, thing] })
  await server.waitFor({ ...thing, ...thing.metadata })
  const refused = (options: StartApiServerOptions, message: RegExp): Promise<void> =>
    assert.rejects(startApiServer(options), (error) => error instanceof RefusedObject && message.test(error.message))
  await refused({ crds: ['things.yaml'] }, /^crds\[0\] must be an object with apiVersion, kind and metadata.name$/)
  await refused({ crds: ['a: [\n'] }, /^crds\[0\]:/)
  await refused({ objects: [{}] }, /^objects\[0\] must be an object/)
  const { namespace: _, ...nowhere } = pod.metadata
  await refused({ objects: [namespace, { ...pod, metadata: nowhere }] }, /^cannot create Pod p: it needs metadata.name/)
  await refused({ objects: [{ ...namespace, kind: 'Nothing' }] }, /the kind Nothing of v1 is not served$/)
})

test('a wait for an object of a namespace needs the namespace', async (t) => {
  const server = await started(t)
  await assert.rejects(server.waitFor({ apiVersion: 'v1', kind: 'ConfigMap', name: 'x' }), /^TypeError: a ConfigMap to/)
})
