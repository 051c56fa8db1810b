import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { listPages } from '../../src/kube/list-pages.ts'
import { services } from '../../src/kube/resources.ts'

test('pages that are too long are asked for again in smaller ones, from where they began', async () => {
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

test('a page that leads back to itself is an error, not a list without end', async () => {
  const api = { list: async () => ({ items: [], metadata: { continue: 'again' } }) } as unknown as KubeApi
  await assert.rejects(Array.fromAsync(listPages(api, services)), { code: 'BadResponse' })
})
