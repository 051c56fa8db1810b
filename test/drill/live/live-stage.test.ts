import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { writeStaticList } from '../../../src/drill/listings.ts'
import type { Cluster, LiveOptions } from '../../../src/drill/live/cluster.ts'
import { childOptions } from '../../../src/drill/live/live-member.ts'
import { ClusterStage } from '../../../src/drill/live/live-stage.ts'
import { endpointSlices, endpoints } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'
import { tempDir } from '../../support/temp-dir.ts'

const { signal } = new AbortController()

/** The stage of a drill on an in-process API server. `more` overrides parts of its cluster. */
function stageOf(options: Partial<LiveOptions> = {}, more: object = {}): ClusterStage {
  const around = { clock: systemClock, random: seededRandom(1, 'server') }
  const cluster = {
    api: restKubeApi({ transport: inProcessTransport(createApiServer(around)), ...around }),
    leaseStore: 'kubernetes',
    leases: { inspect: async () => [] },
    readyz: async () => ({ status: 200, text: '' }),
    close: async () => {},
    ...more,
  } as unknown as Cluster
  const fixed = { kubeconfig: '', etcdPrefix: '', etcdFiles: {}, program: [], serviceClusterIpRange: '10.96.0.0/12' }
  return new ClusterStage({ ...fixed, log: () => {}, ...options }, cluster)
}

test('the end of a drill removes the leases at every drilled address, former ones too, and no others', async () => {
  const addresses = ['192.0.2.7', '192.0.2.8', '2001:db8::9', '198.18.1.1', '198.18.1.2', '10.0.0.1', undefined]
  const evicted: (string | undefined)[] = []
  let found: readonly object[] = []
  const leases = {
    inspect: async () => found,
    evict: async ({ address }: { readonly address: string | undefined }) => evicted.push(address),
  }
  const stage = stageOf({}, { leases })
  await stage.open(signal)
  found = addresses.map((address) => ({ address }))
  await stage.close(['192.0.2.8', '198.18.1.1'])
  assert.deepEqual(evicted, ['192.0.2.7', '192.0.2.8', '2001:db8::9', '198.18.1.1'])
})

test('the output of the processes is stored after the drill; a link of the same name is replaced', async (t) => {
  const report = await tempDir(t)
  const directory = join(report, 'logs')
  const other = join(report, 'other')
  writeFileSync(other, 'other')
  mkdirSync(directory)
  symlinkSync(other, join(directory, 'lease-etcd-seed-7-master-1-1.log'))
  const stage = stageOf({ logs: { directory, prefix: 'lease-etcd-seed-7' } })
  const around = await stage.open(signal)
  for (const life of [1, 2]) writeFileSync(childOptions(around, 'master-1', life).output, `life ${life}`)
  writeFileSync(join(around.directory, 'master-1.kubeconfig'), 'a secret')
  await stage.close([])
  assert.deepEqual(
    readdirSync(directory).map((name) => [name, readFileSync(join(directory, name), 'utf8')]),
    [
      ['lease-etcd-seed-7-master-1-1.log', 'life 1'],
      ['lease-etcd-seed-7-master-1-2.log', 'life 2'],
    ],
  )
  assert.equal(readFileSync(other, 'utf8'), 'other')
  assert.ok(!existsSync(around.directory))
})

test('logs that cannot be stored are reported; the cluster is restored and the directory removed all the same', async (t) => {
  const directory = join(await tempDir(t), 'logs')
  writeFileSync(directory, '')
  const lines: string[] = []
  const stage = stageOf({ logs: { directory, prefix: 'a' }, log: (line) => lines.push(line) })
  const around = await stage.open(signal)
  writeFileSync(childOptions(around, 'master-1', 1).output, 'x')
  const { api } = around.cluster
  await writeStaticList(api, ['203.0.113.1'])
  await stage.close([])
  const [lists, slices] = [await api.list(endpoints), await api.list(endpointSlices)]
  assert.deepEqual([lists.items, slices.items], [[], []], 'the cluster is as the drill found it')
  assert.match(lines.join(), /^the logs of the processes cannot be written: EEXIST/)
  assert.ok(!existsSync(around.directory))
})
