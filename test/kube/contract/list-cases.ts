import assert from 'node:assert/strict'
import type { KubeApi, ListQuery } from '../../../src/kube/api.ts'
import { endpoints, leases, namespaces, services } from '../../../src/kube/resources.ts'
import { type ContractCase, endpointsIn, rejectsWith, serviceIn, WatchReader } from './contract-case.ts'

async function fill(api: KubeApi, namespace: string): Promise<void> {
  const labelled: Readonly<Record<string, Record<string, string>>> = {
    a: { app: 'x', tier: '1' },
    b: { app: 'y', tier: '2' },
    c: { app: 'x', tier: '3', extra: '' },
    d: {},
  }
  for (const [name, labels] of Object.entries(labelled))
    await api.create(endpoints, endpointsIn(namespace, name, { labels }))
}

async function namesOf(api: KubeApi, query: ListQuery): Promise<string> {
  const { items } = await api.list(endpoints, query)
  return items.map((item) => item.metadata?.name).join('')
}

const labelSelectors: readonly (readonly [selector: string, names: string])[] = [
  ['app=x', 'ac'],
  ['app==x', 'ac'],
  ['app!=x', 'bd'],
  ['app in (x,y)', 'abc'],
  ['app notin (x)', 'bd'],
  ['app', 'abc'],
  ['!app', 'd'],
  ['extra=', 'c'],
  ['app=x,tier=3', 'c'],
  ['app in (x, y),tier!=1', 'bc'],
  ['tier>1', 'bc'],
  ['tier<2', 'a'],
  ['nothing=here', ''],
  [' app = x ', 'ac'],
]

const fieldSelectors: readonly (readonly [selector: string, names: string])[] = [
  ['metadata.name=b', 'b'],
  ['metadata.name==b', 'b'],
  ['metadata.name!=b', 'acd'],
  ['metadata.name=nobody', ''],
  ['metadata.name!=a,metadata.name!=b', 'cd'],
]

/** list: scope, selectors, versions, pages. */
export const listCases: readonly ContractCase[] = [
  {
    name: 'a list of a namespace has only the objects of that namespace, sorted by name',
    async run({ api, namespace }) {
      const other = `${namespace}-x`
      await api.create(namespaces, { metadata: { name: other } })
      for (const name of ['b', 'a.b', 'a-b', 'a']) await api.create(endpoints, endpointsIn(namespace, name))
      await api.create(endpoints, endpointsIn(other, 'z'))
      const { items } = await api.list(endpoints, { namespace })
      assert.deepEqual(
        items.map((item) => item.metadata?.name),
        ['a', 'a-b', 'a.b', 'b'],
      )
    },
  },
  {
    name: 'a list without a namespace has the objects of all namespaces',
    async run({ api, namespace }) {
      const other = `${namespace}-x`
      await api.create(namespaces, { metadata: { name: other } })
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(other, 'a'))
      const { items } = await api.list(endpoints, { fieldSelector: 'metadata.name=a' })
      const found = items.map((item) => item.metadata?.namespace)
      assert.ok(found.includes(namespace) && found.includes(other))
    },
  },
  {
    name: 'a list of a namespace that does not exist is empty and has a resourceVersion',
    async run({ api, namespace }) {
      const list = await api.list(endpoints, { namespace: `${namespace}-missing` })
      assert.deepEqual(list.items, [])
      assert.match(list.metadata.resourceVersion, /^[1-9]\d*$/)
    },
  },
  {
    name: 'the items of a list are the objects without kind and apiVersion',
    async run({ api, namespace }) {
      const { kind: _kind, apiVersion: _apiVersion, ...rest } = await api.create(endpoints, endpointsIn(namespace, 'a'))
      assert.deepEqual((await api.list(endpoints, { namespace })).items, [rest])
    },
  },
  ...labelSelectors.map(
    ([selector, names]): ContractCase => ({
      name: `the label selector ${JSON.stringify(selector)} selects ${names === '' ? 'nothing' : names}`,
      async run({ api, namespace }) {
        await fill(api, namespace)
        assert.equal(await namesOf(api, { namespace, labelSelector: selector }), names)
      },
    }),
  ),
  ...fieldSelectors.map(
    ([selector, names]): ContractCase => ({
      name: `the field selector ${JSON.stringify(selector)} selects ${names === '' ? 'nothing' : names}`,
      async run({ api, namespace }) {
        await fill(api, namespace)
        assert.equal(await namesOf(api, { namespace, fieldSelector: selector }), names)
      },
    }),
  ),
  {
    name: 'a list with a label selector and a field selector has the objects that both select',
    async run({ api, namespace }) {
      await fill(api, namespace)
      assert.equal(await namesOf(api, { namespace, labelSelector: 'app=x', fieldSelector: 'metadata.name!=a' }), 'c')
    },
  },
  {
    name: 'Services can be selected by type and ClusterIP',
    async run({ api, namespace }) {
      await api.create(services, serviceIn(namespace, 'a', { clusterIP: 'None' }))
      await api.create(
        services,
        serviceIn(namespace, 'b', { type: 'ExternalName', externalName: 'example.com', ports: [] }),
      )
      const named = async (fieldSelector: string) =>
        (await api.list(services, { namespace, fieldSelector })).items.map((item) => item.metadata?.name)
      assert.deepEqual(await named('spec.type=ExternalName'), ['b'])
      assert.deepEqual(await named('spec.clusterIP=None'), ['a'])
    },
  },
  {
    name: 'a malformed selector or an unknown field is a BadRequest',
    async run({ api, namespace }) {
      for (const labelSelector of ['=', '==x', 'a=b=c', 'a in', 'a in (b', 'a,', 'a b', '-a']) {
        await rejectsWith('BadRequest', api.list(endpoints, { namespace, labelSelector }))
      }
      for (const fieldSelector of ['metadata.name', 'spec.nothing=x']) {
        await rejectsWith('BadRequest', api.list(endpoints, { namespace, fieldSelector }))
      }
    },
  },
  {
    name: 'the resourceVersion of a list is not older than earlier writes, and a watch from it has the next write',
    async run({ api, namespace }, t) {
      const first = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { metadata } = await api.list(endpoints, { namespace })
      assert.ok(BigInt(metadata.resourceVersion) >= BigInt(first.metadata?.resourceVersion ?? ''))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      const { resourceVersion } = metadata
      const watch = new WatchReader(api, endpoints, { namespace, resourceVersion }, t)
      assert.equal(await watch.nextText(), 'ADDED b')
    },
  },
  {
    name: 'a list from resourceVersion "0" has the objects that were written before an earlier list',
    async run({ api, namespace }) {
      await fill(api, namespace)
      // The cache may be a moment behind.
      await api.list(endpoints, { namespace })
      assert.equal(await namesOf(api, { namespace, resourceVersion: '0' }), 'abcd')
    },
  },
  {
    name: 'a list with an exact resourceVersion has the objects of that resourceVersion',
    async run({ api, namespace }) {
      const { metadata } = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const resourceVersion = metadata?.resourceVersion
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      await api.delete(endpoints, { namespace, name: 'a' })
      const list = await api.list(endpoints, { namespace, resourceVersion, resourceVersionMatch: 'Exact' })
      assert.deepEqual(
        list.items.map((item) => item.metadata?.name),
        ['a'],
      )
      assert.equal(list.metadata.resourceVersion, resourceVersion)
    },
  },
  {
    name: 'a list that may not be older than a resourceVersion also has newer objects',
    async run({ api, namespace }) {
      const { metadata } = await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      await api.list(endpoints, { namespace })
      const resourceVersion = metadata?.resourceVersion
      assert.equal(await namesOf(api, { namespace, resourceVersion, resourceVersionMatch: 'NotOlderThan' }), 'ab')
    },
  },
  {
    name: 'a list from a malformed resourceVersion is a BadRequest',
    async run({ api, namespace }) {
      await rejectsWith('BadRequest', api.list(endpoints, { namespace, resourceVersion: 'yesterday' }))
    },
  },
  {
    name: 'all pages of a list have one resourceVersion, regardless of writes between them',
    async run({ api, namespace }) {
      for (const name of ['a', 'b', 'c', 'd', 'e']) await api.create(endpoints, endpointsIn(namespace, name))
      const first = await api.list(endpoints, { namespace, limit: 2 })
      await api.delete(endpoints, { namespace, name: 'c' })
      await api.create(endpoints, endpointsIn(namespace, 'bb'))
      const second = await api.list(endpoints, { namespace, limit: 2, continue: first.metadata.continue })
      const third = await api.list(endpoints, { namespace, limit: 2, continue: second.metadata.continue })
      const pages = [first, second, third]
      assert.deepEqual(
        pages.map(({ items }) => items.map((item) => item.metadata?.name).join('')),
        ['ab', 'cd', 'e'],
      )
      assert.equal(new Set(pages.map(({ metadata }) => metadata.resourceVersion)).size, 1)
      assert.equal(third.metadata.continue, undefined)
    },
  },
  {
    name: 'each page of a list has only objects that the selector selects',
    async run({ api, namespace }) {
      await fill(api, namespace)
      const labelSelector = 'app=x'
      const names: (string | undefined)[] = []
      let next: string | undefined
      do {
        const page = await api.list(endpoints, { namespace, labelSelector, limit: 1, continue: next })
        assert.ok(page.items.length <= 1)
        names.push(...page.items.map((item) => item.metadata?.name))
        next = page.metadata.continue
      } while (next !== undefined && next !== '')
      assert.deepEqual(names, ['a', 'c'])
    },
  },
  {
    name: 'a list that fits in its limit has no next page',
    async run({ api, namespace }) {
      await fill(api, namespace)
      const { items, metadata } = await api.list(endpoints, { namespace, limit: 4 })
      assert.equal(items.length, 4)
      assert.equal(metadata.continue, undefined)
    },
  },
  {
    name: 'a malformed continue token is a BadRequest',
    async run({ api, namespace }) {
      await rejectsWith('BadRequest', api.list(leases, { namespace, limit: 1, continue: 'garbage' }))
    },
  },
]
