import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi, ListQuery } from '../../src/kube/api.ts'
import { dryRunApi, dryRunLogger, fencedApi, listPages } from '../../src/kube/api-wrappers.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { configMaps, services } from '../../src/kube/resources.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'

test('a fenced API checks before each write whether its process leads, and always permits reads', async () => {
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

test('a dry run writes nothing, and logs each write once and again if it differs in more than times', async () => {
  const { api } = await Embedded.started(['10.96.0.0/16'])
  const logger = memoryLogger()
  const dry = dryRunApi(api, logger)
  const ref = { namespace: 'default', name: 'a' }
  const made = await api.create(configMaps, { metadata: ref, data: { x: '1' } })
  const values = ['2', '2', '3', '2026-11-27T16:00:00Z', '2026-11-27T17:00:00Z', '2']
  for (const x of values) assert.deepEqual((await dry.update(configMaps, { ...made, data: { x } })).data, { x })
  for (const name of ['a', 'a', 'b']) await dry.delete(configMaps, { ...ref, name })
  assert.deepEqual(
    logger.lines.map(({ message, fields }) => `${message} ${fields.verb} ${fields.object}`),
    [
      ...Array.from({ length: 4 }, () => 'dry run: would write update default/a'),
      'dry run: would write delete default/a',
      'dry run: would write delete default/b',
    ],
  )
  assert.deepEqual((await api.get(configMaps, ref)).data, { x: '1' })
})

test('a dry run logs equal lines of one controller once, and those of another controller too', () => {
  const logger = memoryLogger()
  const dry = dryRunLogger(logger)
  const controllers = ['endpoints', 'endpointslice', 'endpoints'].map((controller) => dry.child({ controller }))
  for (const controller of controllers) controller.info({ name: 'web' }, 'wrote an object')
  assert.deepEqual(
    logger.lines.map(({ message, fields }) => [message, fields]),
    ['endpoints', 'endpointslice'].map((controller) => ['dry run: would write an object', { controller, name: 'web' }]),
  )
})

test('a page that is too long is requested again in smaller pages, from where it began', async () => {
  const asked: string[] = []
  // Pages of more than ten are too long.
  const api = {
    async list(_: unknown, { limit = 0, continue: token = '0' }: { limit?: number; continue?: string }) {
      asked.push(`${limit} from ${token}`)
      if (limit > 10) throw new KubeError('TooLarge', 'too long')
      const from = Number(token)
      const items = Array.from({ length: Math.min(limit, 20 - from) }, (_, index) => ({
        metadata: { name: `s${from + index}` },
      }))
      const next = from + items.length
      return { items, metadata: next < 20 ? { continue: `${next}` } : {} }
    },
  } as unknown as KubeApi
  const found = (await Array.fromAsync(listPages(api, services))).flat()
  assert.deepEqual(
    found.map(({ metadata }) => metadata?.name),
    Array.from({ length: 20 }, (_, index) => `s${index}`),
  )
  assert.deepEqual(asked, ['500 from 0', '125 from 0', '32 from 0', '8 from 0', '8 from 8', '8 from 16'])
})

test('a page whose continue token leads back to itself is an error, not an endless list', async () => {
  const api = { list: async () => ({ items: [], metadata: { continue: 'again' } }) } as unknown as KubeApi
  await assert.rejects(Array.fromAsync(listPages(api, services)), { code: 'BadResponse' })
})

test('only the first page of a list is requested with a resourceVersion', async () => {
  const asked: unknown[] = []
  const list = async (_: unknown, { resourceVersion, resourceVersionMatch, continue: token }: ListQuery) => {
    asked.push([resourceVersion, resourceVersionMatch, token])
    return { items: [], metadata: token === undefined ? { continue: 'more' } : {} }
  }
  const query = { resourceVersion: '7', resourceVersionMatch: 'NotOlderThan' } as const
  await Array.fromAsync(listPages({ list } as unknown as KubeApi, services, query))
  assert.deepEqual(asked, [
    ['7', 'NotOlderThan', undefined],
    [undefined, undefined, 'more'],
  ])
})

test('pages whose continue tokens form a circle, or never end, are an error', async () => {
  const after: Record<string, string> = { '': 'a', a: 'b', b: 'c', c: 'a' }
  let pages = 0
  const listing = (next: (token: string) => string | undefined): KubeApi => {
    const list = async (_: unknown, { continue: token = '' }: ListQuery) => {
      pages++
      return { items: [], metadata: { continue: next(token) } }
    }
    return { list } as unknown as KubeApi
  }
  const circle = listing((token) => after[token])
  await assert.rejects(Array.fromAsync(listPages(circle, services)), {
    message: 'list services: a page has the continue token of an earlier one',
  })
  assert.equal(pages, 4)
  const endless = listing((token) => `${token.length > 100 ? '' : token}${pages}`)
  await assert.rejects(Array.fromAsync(listPages(endless, services)), {
    message: 'list services: the list has more than 10000 pages',
  })
})
