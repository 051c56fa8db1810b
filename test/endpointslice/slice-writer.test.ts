import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SliceAction } from '../../src/endpointslice/slice-actions.ts'
import { SliceTracker } from '../../src/endpointslice/slice-tracker.ts'
import { SliceWriteError, SliceWriter } from '../../src/endpointslice/slice-writer.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { type EndpointSlice, endpointSlices, type Service } from '../../src/kube/resources.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { ScriptedApi } from '../kube/scripted-api.ts'

const service: Service = { metadata: { name: 'web', namespace: 'default' } }

function sliceOf(name: string): EndpointSlice {
  const labels = { 'kubernetes.io/service-name': 'web' }
  const metadata = { name, namespace: 'default', labels }
  return { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, addressType: 'IPv4', endpoints: [] }
}

async function started() {
  const embedded = await Embedded.started()
  const tracker = new SliceTracker()
  const written: string[] = []
  const goneKeys: string[] = []
  const writer = new SliceWriter({
    api: embedded.api,
    tracker,
    written: (operation) => written.push(operation),
    onSliceGone: (serviceKey) => goneKeys.push(serviceKey),
  })
  const execute = async (actions: readonly SliceAction[]): Promise<boolean> => {
    const [done] = await Promise.all([
      writer.execute(service, actions, [], new AbortController().signal),
      embedded.time.advance(1_000),
    ])
    return done
  }
  return { embedded, tracker, written, goneKeys, writer, execute }
}

test('creations run first, deletions last, and the tracker records all of them, with the update', async () => {
  const { embedded, tracker, written, goneKeys, execute } = await started()
  const old = await embedded.api.create(endpointSlices, sliceOf('old'))
  const gone = await embedded.api.create(endpointSlices, sliceOf('gone'))
  const created = Array.from({ length: 6 }, (_, index) => sliceOf(`new-${index}`))
  const done = await execute([
    { type: 'delete', slice: gone },
    { type: 'update', slice: { ...old, ports: [{ name: '', port: 80, protocol: 'TCP' }] } },
    ...created.map((slice) => ({ type: 'create', slice }) as const),
  ])
  assert.equal(done, true)
  assert.deepEqual(written, [...created.map(() => 'create'), 'update', 'delete'])
  assert.equal(tracker.generation(old), 2)
  assert.equal(tracker.generation(gone), -1)
  const { items } = await embedded.api.list(endpointSlices, { namespace: 'default' })
  const generations = items.map((slice) => `${slice.metadata?.name} ${tracker.generation(slice)}`)
  assert.deepEqual(generations, [...created.map(({ metadata }) => `${metadata?.name} 1`), 'old 2'])
  assert.deepEqual(goneKeys, [])
})

test('the first failure prevents the writes not yet begun, and its message is that of upstream', async () => {
  const { embedded, written, execute } = await started()
  await embedded.api.create(endpointSlices, sliceOf('taken'))
  const names = ['taken', 'a', 'b', 'c', 'd', 'e']
  const failing = execute([
    ...names.map((name) => ({ type: 'create', slice: sliceOf(name) }) as const),
    { type: 'delete', slice: sliceOf('taken') },
  ])
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof SliceWriteError)
    assert.match(error.message, /^failed to create EndpointSlice for Service default\/web: .*"taken" already exists$/)
    return true
  })
  assert.ok(written.length <= 4 && !written.includes('delete'), String(written))
})

test('after a Forbidden creation updates that drop no needed address still run; after other failures nothing does', async () => {
  const listing = (name: string, ...addresses: readonly string[]): EndpointSlice => ({
    ...sliceOf(name),
    endpoints: addresses.map((address) => ({ addresses: [address] })),
  })
  const existing = [
    listing('drops', '192.0.2.1', '192.0.2.2'),
    listing('moves', '192.0.2.3', '192.0.2.4'),
    listing('follows', '192.0.2.5', '192.0.2.6'),
    listing('superfluous', '192.0.2.7'),
  ]
  const actions: readonly SliceAction[] = [
    { type: 'create', slice: listing('new', '192.0.2.3', '192.0.2.8') },
    { type: 'update', slice: listing('drops', '192.0.2.2', '192.0.2.9') },
    { type: 'update', slice: listing('moves', '192.0.2.4', '192.0.2.5') },
    { type: 'update', slice: listing('follows', '192.0.2.6') },
    { type: 'delete', slice: listing('superfluous', '192.0.2.7') },
  ]
  for (const [code, wanted] of [
    ['Forbidden', ['create new', 'update drops']],
    ['Unreachable', ['create new']],
    ['Timeout', ['create new']],
    ['NoCredentials', ['create new']],
    ['TooManyRequests', ['create new']],
  ] as const) {
    const api = new ScriptedApi()
    const refusal = new KubeError(code, 'exceeded quota')
    api.answer = ({ call, of }) => {
      if (call === 'create') throw refusal
      return of
    }
    const writer = new SliceWriter({ api, tracker: new SliceTracker(), written: () => {}, onSliceGone: () => {} })
    const executing = writer.execute(service, actions, existing, new AbortController().signal)
    await assert.rejects(executing, (error) => {
      assert.ok(error instanceof SliceWriteError && error.cause === refusal)
      assert.match(error.message, /^failed to create EndpointSlice for Service default\/web: exceeded quota$/)
      return true
    })
    const asked = api.asked.map(({ call, of }) => `${call} ${(of as EndpointSlice).metadata?.name}`)
    assert.deepEqual(asked, wanted)
  }
})

test('deleting a slice that is already gone succeeds and reports its Service', async () => {
  const { written, goneKeys, execute } = await started()
  assert.equal(await execute([{ type: 'delete', slice: sliceOf('gone') }]), true)
  assert.deepEqual(written, ['delete'])
  assert.deepEqual(goneKeys, ['default/web'])
})

test('after a failed deletion the tracker does not expect it', async () => {
  const api = new ScriptedApi()
  api.answer = () => {
    throw new KubeError('ServerError', 'it fails')
  }
  const tracker = new SliceTracker()
  const undeletable = {
    ...sliceOf('undeletable'),
    metadata: { ...sliceOf('undeletable').metadata, uid: 'undeletable', generation: 1 },
  }
  tracker.update(undeletable)
  const writer = new SliceWriter({ api, tracker, written: () => {}, onSliceGone: () => {} })
  const { signal } = new AbortController()
  await assert.rejects(writer.execute(service, [{ type: 'delete', slice: undeletable }], [], signal), SliceWriteError)
  assert.equal(tracker.isStale('default/web', [undeletable]), false)
})

test('a slice that replaced the one read, under the same name, is not deleted', async () => {
  const { embedded, execute } = await started()
  const seen = await embedded.api.create(endpointSlices, sliceOf('web-1'))
  const ref = { namespace: 'default', name: 'web-1' }
  await embedded.api.delete(endpointSlices, ref)
  const { metadata } = await embedded.api.create(endpointSlices, sliceOf('web-1'))
  assert.equal(await execute([{ type: 'delete', slice: seen }]), true)
  assert.equal((await embedded.api.get(endpointSlices, ref)).metadata?.uid, metadata?.uid)
})

test('in a terminating Namespace a refused creation is no failure; a refused update is', async () => {
  const causes = [{ reason: 'NamespaceTerminating', message: 'it ends', field: 'metadata.namespace' }]
  const refusal = new KubeError('Forbidden', 'refused', { status: { details: { causes } } })
  const api = new ScriptedApi()
  api.answer = () => {
    throw refusal
  }
  const writer = new SliceWriter({ api, tracker: new SliceTracker(), written: () => {}, onSliceGone: () => {} })
  const { signal } = new AbortController()
  assert.equal(await writer.execute(service, [{ type: 'create', slice: sliceOf('a') }], [], signal), false)
  const update = writer.execute(service, [{ type: 'update', slice: sliceOf('a') }], [], signal)
  await assert.rejects(update, (error) => error instanceof SliceWriteError && error.cause === refusal)
})

test('a failed deletion of an unwanted slice is a SliceWriteError; once aborted, the original error', async () => {
  const api = new ScriptedApi()
  const cause = new KubeError('Unreachable', 'connection reset')
  api.answer = () => {
    throw cause
  }
  const writer = new SliceWriter({ api, tracker: new SliceTracker(), written: () => {}, onSliceGone: () => {} })
  const end = new AbortController()
  const failing = writer.deleteUnwanted(service, sliceOf('web-6'), end.signal)
  await assert.rejects(failing, (error) => error instanceof SliceWriteError && error.cause === cause)
  end.abort()
  await assert.rejects(writer.deleteUnwanted(service, sliceOf('web-6'), end.signal), cause)
})

test('the deletion of an unwanted slice is counted, and the tracker expects it', async () => {
  const { embedded, tracker, written, writer } = await started()
  const unwanted = await embedded.api.create(endpointSlices, sliceOf('web-6'))
  await writer.deleteUnwanted(service, unwanted, new AbortController().signal)
  assert.deepEqual((await embedded.api.list(endpointSlices, { namespace: 'default' })).items, [])
  assert.deepEqual(written, ['delete'])
  assert.equal(tracker.generation(unwanted), -1)
})
