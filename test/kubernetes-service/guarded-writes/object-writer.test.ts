import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../../src/kube/api.ts'
import { isKubeError, KubeError } from '../../../src/kube/errors.ts'
import { type ConfigMap, configMaps, endpoints, namespaces } from '../../../src/kube/resources.ts'
import { FIGHT } from '../../../src/kubernetes-service/guarded-writes/contention.ts'
import { ForeignOverwrites } from '../../../src/kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { ObjectWriter, type Written } from '../../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { setUp } from '../../bootstrap/masters-world.ts'
import { passedOn } from '../../kube/passed-on.ts'

const ref = { namespace: 'default', name: 'one' }
const reasons = ['data', 'labels']

function configMap(version: string): ConfigMap {
  return { metadata: ref, data: { version } }
}

async function open({ methods = {}, backsOff = false }: { methods?: Partial<KubeApi>; backsOff?: boolean } = {}) {
  const { time, api } = setUp()
  await api.create(namespaces, { metadata: { name: ref.namespace } })
  const metrics = prometheusMetrics()
  const clock = time.view()
  const overwrites = new ForeignOverwrites({
    clock,
    metrics,
    logger: memoryLogger(),
    events: { record() {} },
    intervalMs: 10_000,
  })
  const written: Written[] = []
  const writer = new ObjectWriter({
    api: passedOn(api, methods),
    metrics,
    overwrites: backsOff ? overwrites : undefined,
    onWritten: (one) => written.push(one),
  })
  const stored = () => api.get(configMaps, ref).catch(() => undefined)
  const put = (version: string) => api.create(configMaps, configMap(version))
  const replaceByHand = async (version: string): Promise<ConfigMap> => {
    const live = await api.get(configMaps, ref)
    return api.update(configMaps, { ...live, data: { version } })
  }
  const writes = async (): Promise<readonly string[]> =>
    (await metrics.expose()).split('\n').filter((line) => line.startsWith('apiserver_bootstrap_writes_total{'))
  return { time, api, writer, written, stored, put, replaceByHand, writes }
}

/** What was reported of each write: verb, version before, version after. */
function summary(written: readonly Written[]): readonly string[] {
  const version = (object: Written['found']): string => (object as ConfigMap | undefined)?.data?.version ?? '-'
  return written.map(({ verb, found, stored, error }) =>
    [verb, version(found), version(stored), ...(error === undefined ? [] : ['unanswered'])].join(' '),
  )
}

const rejectsWith =
  (...codes: Parameters<typeof isKubeError>[1][]) =>
  (error: unknown) =>
    isKubeError(error, ...codes)

test('an object that is in sync is not written', async () => {
  const { writer, written, put, writes } = await open()
  const found = await put('1')
  assert.equal(writer.isSettled(configMaps, { type: 'none' }, found), true)
  assert.deepEqual(await writer.execute(configMaps, { type: 'none' }, found), { type: 'in-sync', object: found })
  assert.deepEqual([written.length, await writes()], [0, []])
})

test('an action that writes is not settled, and each of its reasons is counted', async () => {
  const { writer, written, stored, writes } = await open()
  const action = { type: 'create', object: configMap('1'), reasons } as const
  assert.equal(writer.isSettled(configMaps, action, undefined), false)
  const { type, object } = await writer.execute(configMaps, action, undefined)
  assert.equal(type, 'written')
  assert.deepEqual(object, await stored())
  assert.deepEqual(summary(written), ['create - 1'])
  assert.deepEqual(written[0]?.reasons, reasons)
  assert.deepEqual(await writes(), [
    'apiserver_bootstrap_writes_total{kind="ConfigMap",verb="create",reason="data"} 1',
    'apiserver_bootstrap_writes_total{kind="ConfigMap",verb="create",reason="labels"} 1',
  ])
})

test('a creation leaves an object unchanged that another client created first', async () => {
  const { writer, written, stored, put, writes } = await open()
  const other = await put('other')
  const outcome = await writer.execute(configMaps, { type: 'create', object: configMap('1'), reasons }, undefined)
  assert.deepEqual(outcome, { type: 'overtaken', object: undefined })
  assert.deepEqual(await stored(), other)
  assert.deepEqual([written.length, await writes()], [0, []])
})

test('an update reports the object before and after, and rejects if another client wrote after the read', async () => {
  const { writer, written, stored, put, replaceByHand } = await open()
  const found = await put('1')
  const action = { type: 'update', object: { ...found, data: { version: '2' } }, reasons } as const
  const { object } = await writer.execute(configMaps, action, found)
  assert.deepEqual(object, await stored())
  assert.deepEqual(summary(written), ['update 1 2'])
  await replaceByHand('other')
  await assert.rejects(writer.execute(configMaps, action, found), rejectsWith('Conflict'))
  assert.equal((await stored())?.data?.version, 'other')
  assert.equal(written.length, 1)
})

test('only the object that was read is deleted; if it is already gone, that is no failure', async () => {
  const { writer, written, stored, put, replaceByHand, api } = await open()
  const found = await put('1')
  const other = await replaceByHand('other')
  const action = { type: 'remove', reasons } as const
  await assert.rejects(writer.execute(configMaps, action, found), rejectsWith('Conflict'))
  assert.deepEqual(await stored(), other)
  assert.deepEqual(await writer.execute(configMaps, action, other), { type: 'written', object: undefined })
  assert.equal(await stored(), undefined)
  assert.deepEqual(await writer.execute(configMaps, action, other), { type: 'overtaken', object: undefined })
  assert.deepEqual(summary(written), ['delete other -'])
  await put('other')
  const anew = await api.get(configMaps, ref)
  await assert.rejects(writer.execute(configMaps, action, other), rejectsWith('Conflict'), 'of another uid')
  assert.deepEqual(await stored(), anew)
})

test('a replacement deletes the object that was read and creates a new one; both are reported', async () => {
  const { writer, written, stored, put } = await open()
  const found = await put('1')
  const action = { type: 'replace', object: configMap('2'), reasons } as const
  const { type, object } = await writer.execute(configMaps, action, found)
  assert.equal(type, 'written')
  assert.deepEqual(object, await stored())
  assert.notEqual(object?.metadata?.uid, found.metadata?.uid)
  assert.deepEqual(summary(written), ['delete 1 -', 'create - 2'])
})

test('a replacement of a deleted object rejects and creates nothing', async () => {
  const { writer, written, stored, put, api } = await open()
  const found = await put('1')
  await api.delete(configMaps, ref, {})
  const action = { type: 'replace', object: configMap('2'), reasons } as const
  await assert.rejects(writer.execute(configMaps, action, found), rejectsWith('NotFound'))
  assert.equal(await stored(), undefined)
  assert.equal(written.length, 0)
})

test('a replacement preserves an object that another client creates in between', async () => {
  const { writer, written, stored, put, api } = await open({
    methods: {
      create: async (resource, object, options) => {
        await api.create(configMaps, configMap('other'))
        return api.create(resource, object, options)
      },
    },
  })
  const found = await put('1')
  const outcome = await writer.execute(configMaps, { type: 'replace', object: configMap('2'), reasons }, found)
  assert.deepEqual(outcome, { type: 'written', object: undefined })
  assert.equal((await stored())?.data?.version, 'other')
  assert.deepEqual(summary(written), ['delete 1 -'])
})

test('a write whose answer was lost is reported with the object that was sent, is not counted, and rejects', async () => {
  const lost = new KubeError('Unreachable', 'connection reset')
  const { writer, written, put, writes } = await open({
    methods: { update: () => Promise.reject(lost), delete: () => Promise.reject(lost) },
  })
  const found = await put('1')
  const update = { type: 'update', object: { ...found, data: { version: '2' } }, reasons } as const
  await assert.rejects(writer.execute(configMaps, update, found), lost)
  await assert.rejects(writer.execute(configMaps, { type: 'remove', reasons }, found), lost)
  assert.deepEqual(summary(written), ['update 1 2 unanswered', 'delete 1 - unanswered'])
  assert.equal(written[0]?.error, lost)
  assert.deepEqual(await writes(), [])
})

test('of a replacement, the report names the write whose answer was lost: the deletion or the creation', async () => {
  const lost = new KubeError('Unreachable', 'connection reset')
  for (const verb of ['delete', 'create'] as const) {
    const { writer, written, put } = await open({ methods: { [verb]: () => Promise.reject(lost) } })
    const found = await put('1')
    const action = { type: 'replace', object: configMap('2'), reasons } as const
    await assert.rejects(writer.execute(configMaps, action, found), lost)
    assert.equal(summary(written).at(-1), verb === 'delete' ? 'delete 1 - unanswered' : 'create - 2 unanswered')
  }
})

test('a difference ignored for now does not count as in sync; restoring the object later is a correction', async () => {
  const { writer, written, api } = await open({ backsOff: true })
  const subsets = (ip: string) => [{ addresses: [{ ip }], ports: [{ port: 443 }] }]
  const ours = await api.create(endpoints, { metadata: ref, subsets: subsets('192.0.2.1') })
  await writer.execute(endpoints, { type: 'none' }, ours)
  const theirs = await api.update(endpoints, { ...ours, subsets: subsets('198.51.100.1') })
  await writer.execute(endpoints, { type: 'none', forNow: true }, theirs)
  await writer.execute(
    endpoints,
    { type: 'update', object: { ...theirs, subsets: ours.subsets ?? [] }, reasons },
    theirs,
  )
  assert.notEqual(written.at(-1)?.correction, undefined)
})

test('after another client removed an object first, a later removal counts as a correction', async () => {
  const { writer, written, put, api } = await open({ backsOff: true })
  const found = await put('1')
  await api.delete(configMaps, ref, {})
  await writer.execute(configMaps, { type: 'remove', reasons }, found)
  await writer.execute(configMaps, { type: 'remove', reasons }, await put('2'))
  assert.deepEqual(summary(written), ['delete 2 -'])
  assert.notEqual(written[0]?.correction, undefined)
})

test('in a fight a correction waits and counts as settled, until the writer is no longer held back', async () => {
  const { writer, written, put, replaceByHand, stored } = await open({ backsOff: true })
  const end = writer.holdBack(() => {})
  const correct = async () => {
    const found = await stored()
    const action = { type: 'update', object: { ...found, data: { version: 'ours' } } as ConfigMap, reasons } as const
    const isSettled = writer.isSettled(configMaps, action, found)
    return { isSettled, type: (await writer.execute(configMaps, action, found)).type }
  }
  await writer.execute(configMaps, { type: 'none' }, await put('ours'))
  for (let fight = 1; fight <= FIGHT.burst; fight++) {
    await replaceByHand(`theirs ${fight}`)
    assert.deepEqual(await correct(), { isSettled: false, type: 'written' }, `${fight}`)
    assert.notEqual(written.at(-1)?.correction, undefined)
  }
  await replaceByHand('theirs at last')
  assert.equal((await correct()).type, 'waiting')
  assert.equal((await stored())?.data?.version, 'theirs at last')
  assert.deepEqual(await correct(), { isSettled: true, type: 'waiting' })
  end()
  assert.deepEqual(await correct(), { isSettled: false, type: 'written' })
  assert.equal((await stored())?.data?.version, 'ours')
})
