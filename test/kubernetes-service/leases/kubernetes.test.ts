import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ListQuery } from '../../../src/kube/api.ts'
import { KubeError } from '../../../src/kube/errors.ts'
import { leases as leaseResource } from '../../../src/kube/resources.ts'
import { placeOfLeases, searchedPlace } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { addressesOf, holder } from './holders.ts'
import { openWorld } from './lease-world.ts'

const { signal } = new AbortController()
const [self, other] = [holder('192.0.2.1'), holder('192.0.2.2', { host: 'other' })]

test('who finds no lease is told the prefix or the namespace and label, and the flags that look elsewhere', () => {
  const etcd = { leaseStore: 'etcd', leaseNamespace: 'kube-system', etcdPrefix: '/other' } as const
  assert.equal(
    searchedPlace(etcd),
    'under /other/masterleases/ in etcd (set --etcd-prefix for another prefix; omit --etcd-servers to use Lease objects)',
  )
  assert.equal(placeOfLeases(etcd), 'under /other/masterleases/ in etcd')
  assert.match(
    searchedPlace({ ...etcd, leaseStore: 'kubernetes', leaseNamespace: 'masters' }),
    /^among the Leases in masters with the label apiserver-bootstrap\/lease=master \(set --lease-namespace /,
  )
})

/** A master that has just created its Lease, and what its lists ask for: the present state, or one not older than a version. */
async function createdLease() {
  const world = await openWorld()
  const asked: string[] = []
  const failures: Error[] = []
  const api = passedOn(world.direct, {
    list: async (resource, query: ListQuery = {}) => {
      const { resourceVersion = 'present', resourceVersionMatch: match = '' } = query
      asked.push(`${match} ${resourceVersion}`.trim())
      const failure = failures.shift()
      if (failure !== undefined) throw failure
      return world.direct.list(resource, query)
    },
  })
  const leases = world.open().leasesWith(api)
  await leases.update(self, signal)
  const [own] = (await world.direct.list(leaseResource)).items
  const created = `NotOlderThan ${own?.metadata?.resourceVersion}`
  return { ...world, leases, asked: () => asked.splice(0), failures, created, own }
}

test('a list just after the creation of the own Lease may show the state of that moment, a later one must not', async () => {
  const { leases, asked, created, time } = await createdLease()
  assert.deepEqual(await addressesOf(leases), ['192.0.2.1'])
  await time.advance(500)
  await addressesOf(leases)
  assert.deepEqual(asked(), [created, created])
  await time.advance(1)
  await addressesOf(leases)
  assert.deepEqual(asked(), ['present'])
})

for (const [what, change] of Object.entries({
  'a renewal': ({ leases }) => leases.update(self, signal),
  'a mark': ({ leases }) => leases.mark({ ...self, state: 'withdrawn' }, signal),
  'the removal of the own Lease': ({ leases }) => leases.remove(self, signal),
} satisfies Record<string, (made: Awaited<ReturnType<typeof createdLease>>) => Promise<void>>)) {
  test(`after ${what} a list shows the present state`, async () => {
    const made = await createdLease()
    await change(made)
    await addressesOf(made.leases)
    assert.deepEqual(made.asked(), ['present'])
  })
}

test('with a watch, a change of any Lease after the creation makes the next list show the present state', async (t) => {
  const made = await createdLease()
  const { leases, asked, created, time, open } = made
  const end = new AbortController()
  const watching = leases.watch(() => {}, end.signal)
  t.after(async () => {
    end.abort()
    await time.advance(1)
    await watching
  })
  await time.advance(1)
  await addressesOf(leases)
  assert.deepEqual(asked(), [created], 'the watch has shown the own Lease')
  await open().leases.update(other, signal)
  await time.advance(1)
  assert.deepEqual(await addressesOf(leases), ['192.0.2.1', '192.0.2.2'])
  assert.deepEqual(asked(), ['present'])
})

test('a server that does not have the version, or does not know the parameter, is asked for the present state at once', async () => {
  for (const code of ['Timeout', 'BadRequest', 'Invalid', 'Expired'] as const) {
    const { leases, asked, created, failures } = await createdLease()
    failures.push(new KubeError(code, 'too large resource version'))
    assert.deepEqual(await addressesOf(leases), ['192.0.2.1'])
    await addressesOf(leases)
    assert.deepEqual(asked(), [created, 'present', 'present'], code)
  }
})

test('another failure of such a list is one of any list, and the next one shows the present state', async () => {
  const { leases, asked, created, failures } = await createdLease()
  failures.push(new KubeError('Unreachable', 'cut off'))
  await assert.rejects(addressesOf(leases), /cut off/)
  await addressesOf(leases)
  assert.deepEqual(asked(), [created, 'present'])
})
