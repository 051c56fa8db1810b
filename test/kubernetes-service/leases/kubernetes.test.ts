import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../../src/kube/api.ts'
import { KubeError } from '../../../src/kube/errors.ts'
import { type KubeList, type KubeObject, leases as leaseResource } from '../../../src/kube/resources.ts'
import { placeOfLeases, searchedPlace } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { addressesOf, holder } from './holders.ts'
import { openWorld } from './lease-world.ts'

const { signal } = new AbortController()
const [self, other] = [holder('192.0.2.1'), holder('192.0.2.2', { host: 'other' })]

test('the place of the leases is described by prefix, or by namespace and label, with the flags that change it', () => {
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

/** A master, and the versions that its lists request: the present state, or one not older than a version. */
async function openMaster() {
  const world = await openWorld()
  const asked: string[] = []
  const answers: (() => Promise<KubeList<KubeObject>>)[] = []
  const list: KubeApi['list'] = async (resource, query = {}) => {
    const { resourceVersion = 'present', resourceVersionMatch: match = '' } = query
    asked.push(`${match} ${resourceVersion}`.trim())
    return ((await answers.shift()?.()) as KubeList<never> | undefined) ?? world.direct.list(resource, query)
  }
  const leases = world.open().leasesWith(passedOn(world.direct, { list }))
  const listed = async (): Promise<readonly string[]> => (await leases.list(signal, true)).map(({ address }) => address)
  return { ...world, leases, listed, answers, asked: () => asked.splice(0) }
}

/** A master that has just created its Lease. `created`: a request for the state since then. */
async function openListedMaster() {
  const master = await openMaster()
  await master.leases.update(self, signal)
  const [own] = (await master.direct.list(leaseResource)).items
  return { ...master, created: `NotOlderThan ${own?.metadata?.resourceVersion}` }
}

test('shortly after the creation of its Lease a master may list any state since then, if the caller allows that', async () => {
  const { leases, listed, asked, created, time } = await openListedMaster()
  assert.deepEqual(await listed(), ['192.0.2.1'])
  assert.deepEqual(await addressesOf(leases), ['192.0.2.1'])
  await time.advance(500)
  await listed()
  assert.deepEqual(asked(), [created, 'present', created])
  await time.advance(1)
  await listed()
  assert.deepEqual(asked(), ['present'])
})

test('without an own Lease, and after the renewal of an existing one, a list requests the present state', async () => {
  const { leases, listed, asked, open } = await openMaster()
  await listed()
  await open().leases.update(self, signal)
  await leases.update(self, signal)
  assert.deepEqual(await listed(), ['192.0.2.1'])
  assert.deepEqual(asked(), ['present', 'present'])
})

test('if the server refuses to list the state since the creation, or does not answer, the present state is requested', async () => {
  for (const refused of ['ServerError', 'BadRequest', 'Expired'] as const) {
    const { listed, asked, created, answers } = await openListedMaster()
    answers.push(() => Promise.reject(new KubeError(refused, 'too large resource version')))
    assert.deepEqual(await listed(), ['192.0.2.1'])
    assert.deepEqual(asked(), [created, 'present'], refused)
  }
  const { listed, asked, created, answers, time } = await openListedMaster()
  answers.push(() => new Promise(() => {}))
  const found = listed()
  await time.advance(249)
  assert.deepEqual(asked(), [created])
  await time.advance(1)
  assert.deepEqual(asked(), ['present'])
  assert.deepEqual(await found, ['192.0.2.1'])
})

test('a list of an earlier moment does not restart the lease of a master whose renewal was read before', async () => {
  const endsMs = async (answersLate: boolean): Promise<number> => {
    const { leases, listed, answers, direct, open, time } = await openListedMaster()
    const dying = open().leases
    await dying.update(other, signal)
    const earlier = await direct.list(leaseResource)
    await addressesOf(leases)
    await time.advance(100)
    await dying.update(other, signal)
    assert.deepEqual(await addressesOf(leases), ['192.0.2.1', '192.0.2.2'])
    await time.advance(300)
    if (answersLate) {
      answers.push(() => Promise.resolve(earlier))
      await listed()
    }
    while ((await addressesOf(leases)).includes('192.0.2.2')) await time.advance(50)
    return time.nowMs
  }
  const [plain, late] = [await endsMs(false), await endsMs(true)]
  assert.equal(late, plain)
  assert.ok(plain > 15_000 && plain < 17_000, `${plain}`)
})

test('an aborted list of the state since the creation is not repeated', async () => {
  const { leases, asked, answers } = await openListedMaster()
  answers.push(() => new Promise(() => {}))
  const end = new AbortController()
  const listing = leases.list(end.signal, true)
  end.abort(new Error('the end'))
  await assert.rejects(listing, /the end/)
  assert.equal(asked().length, 1)
})

test('a write that an admission policy strips of the label or the annotation fails, and names both', async () => {
  const strip = (metadata: KubeObject['metadata'], field: 'labels' | 'annotations') => ({ ...metadata, [field]: {} })
  for (const field of ['labels', 'annotations'] as const) {
    const world = await openWorld()
    let isStripping = false
    const written = <T extends KubeObject>(object: T): T =>
      isStripping ? { ...object, metadata: strip(object.metadata, field) } : object
    const leases = world.open().leasesWith(
      passedOn(world.direct, {
        create: (resource, object, options) => world.direct.create(resource, written(object), options),
        update: (resource, object, options) => world.direct.update(resource, written(object), options),
      }),
    )
    await leases.update(self, signal)
    isStripping = true
    const refused = {
      code: 'BadResponse',
      message: /apiserver-bootstrap\/lease.* or the annotation .*admission policy/,
    }
    await assert.rejects(leases.update(self, signal), refused, field)
    await assert.rejects(leases.mark({ ...self, state: 'failing' }, signal), refused, field)
    isStripping = false
    await leases.update(self, signal)
    assert.deepEqual(await addressesOf(leases), ['192.0.2.1'], field)
  }
})
