import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { RefusedObject, type StartApiServerOptions, startApiServer } from '../../src/apiserver/http-start.ts'
import type { ObjectReference } from '../../src/apiserver/wait-for.ts'
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

test('the certificate of a server on 0.0.0.0 includes every IPv4 address of the machine', async (t) => {
  const { kubeconfig } = await started(t, { host: '0.0.0.0' })
  const [, encoded = ''] = /certificate-authority-data: (\S+)/.exec(kubeconfig) ?? []
  const { subjectAltName = '' } = new X509Certificate(Buffer.from(encoded, 'base64'))
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  const named = ['127.0.0.1', ...own.filter(({ family }) => family === 'IPv4').map(({ address }) => address)]
  for (const address of named) assert.ok(subjectAltName.includes(`IP Address:${address}`), subjectAltName)
})

test('a server deletes its kubeconfig on close, and overwrites one left by another server but no other file', async (t) => {
  const file = join(await tempDir(t), 'kubeconfig')
  const [first, second] = [await started(t), await started(t)]
  await first.writeKubeconfig(file)
  // As if the first server had been killed.
  await second.writeKubeconfig(file)
  assert.ok(readFileSync(file, 'utf8').includes(second.url))
  await second.close()
  assert.equal(existsSync(file), false)
  writeFileSync(file, 'mine')
  await assert.rejects(first.writeKubeconfig(file), { code: 'EEXIST' })
  await first.close()
  assert.equal(readFileSync(file, 'utf8'), 'mine')
})

test('a server that closes while it writes its kubeconfig leaves none, and writes none afterwards', async (t) => {
  const file = join(await tempDir(t), 'kubeconfig')
  const server = await started(t)
  const writing = server.writeKubeconfig(file)
  await Promise.all([server.close(), writing])
  assert.equal(existsSync(file), false)
  await assert.rejects(server.writeKubeconfig(file), /the API server is closing/)
  assert.equal(existsSync(file), false)
})

test('writeKubeconfig rejects for a pipe or a directory without reading it', async (t) => {
  const directory = await tempDir(t)
  const pipe = join(directory, 'pipe')
  execFileSync('mkfifo', [pipe])
  const server = await started(t)
  await assert.rejects(server.writeKubeconfig(pipe), { code: 'EEXIST' })
  await assert.rejects(server.writeKubeconfig(`${directory}/`), { code: 'EISDIR' })
})

test('objects given at the start exist with their status', async (t) => {
  const status = { phase: 'Running', podIP: '10.0.0.1' }
  const objects = [namespace, { ...pod, spec: { containers }, status }]
  const server = await started(t, { objects })
  const seeded = await server.waitFor<{ readonly status: object }>({ ...pod, ...pod.metadata })
  assert.deepEqual({ ...seeded?.status, ...status }, seeded?.status)
})

test('crds may be objects or YAML; an error names the invalid entry', async (t) => {
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

test('undefined limits take their defaults, and malformed options are refused', async (t) => {
  const server = await started(t, { limits: { requestMs: 5000, answerMs: undefined as never } })
  await server.waitFor({ ...namespace, name: 'default' })
  const refused = (options: object, message: RegExp): Promise<void> =>
    assert.rejects(startApiServer(options), { name: 'TypeError', message })
  await refused({ limits: { watchs: 3 } }, /^limits contains watchs; known limits: connections, requests, watches, /)
  await refused({ limits: { watches: '3' } }, /^limits.watches must be a number of at least 0$/)
  await refused({ crds: definition }, /^crds must be a list$/)
  await refused({ objects: namespace }, /^objects must be a list$/)
})

test('waitFor requires a name, a namespace for a namespaced kind, and a condition that is not async', async (t) => {
  const server = await started(t)
  const refused = (reference: object, message: RegExp, condition?: () => never): Promise<void> =>
    assert.rejects(server.waitFor(reference as ObjectReference, condition), message)
  await refused({ apiVersion: 'v1', kind: 'ConfigMap', name: 'x' }, /^TypeError: a ConfigMap to wait for needs its nam/)
  await refused(namespace, /^TypeError: a Namespace to wait for needs its name$/)
  const condition = (async () => assert.fail('never')) as () => never
  await refused({ ...namespace, name: 'default' }, /^TypeError: a condition must not be async/, condition)
})
