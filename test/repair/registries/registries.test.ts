import { test } from 'node:test'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../../src/etcd/memory-etcd-faults.ts'
import { configMaps, namespaces } from '../../../src/kube/resources.ts'
import { ConfigMapRangeRegistry } from '../../../src/repair/registries/config-map.ts'
import { EtcdRangeRegistry } from '../../../src/repair/registries/etcd.ts'
import { MemoryRangeRegistry } from '../../../src/repair/registries/memory.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { Embedded } from '../../apiserver/embedded.ts'
import { type RangeRegistryTarget, rangeRegistryContract } from './contract.ts'
import { deleteKey, overwriteKey } from './store-keys.ts'

function onMemory(): RangeRegistryTarget {
  const time = new VirtualClock()
  const registry = new MemoryRangeRegistry()
  return {
    open: () => registry,
    remove: async (name) => registry.put(name, undefined),
    damage: async (name) => registry.put(name, { unreadable: 'is not what it was' }),
    pass: (ms) => time.advance(ms),
  }
}

function onEtcd(flavour: 'etcd' | 'kine', connection: 'direct' | 'faulty'): RangeRegistryTarget {
  const time = new VirtualClock()
  const clock = time.view()
  const store = new MemoryEtcd({ clock, flavour })
  const etcd = store.client()
  const open = () => (connection === 'direct' ? store.client() : faultyEtcd(store.client(), { clock }))
  return {
    open: () => new EtcdRangeRegistry({ etcd: open(), prefix: '/registry' }),
    remove: (name) => deleteKey(etcd, `/registry/ranges/${name}`),
    damage: (name) => overwriteKey(etcd, `/registry/ranges/${name}`, Buffer.from('not what it was')),
    pass: (ms) => time.advance(ms),
  }
}

async function onServer(): Promise<RangeRegistryTarget> {
  const { api, clock, time } = new Embedded()
  await api.create(namespaces, { metadata: { name: 'kube-system' } })
  const refOf = (name: string) => ({ namespace: 'kube-system', name: `apiserver-bootstrap-${name}` })
  return {
    open: () => new ConfigMapRangeRegistry({ api, clock, random: seededRandom(1, 'registry'), logger: silentLogger }),
    remove: (name) => api.delete(configMaps, refOf(name)),
    async damage(name) {
      await api.patch(configMaps, refOf(name), { type: 'merge', body: { binaryData: null } })
    },
    pass: (ms) => time.advance(ms),
  }
}

for (const [name, makeTarget] of Object.entries({
  memory: onMemory,
  etcd: () => onEtcd('etcd', 'direct'),
  kine: () => onEtcd('kine', 'direct'),
  'etcd over a connection without faults': () => onEtcd('etcd', 'faulty'),
  configmap: onServer,
})) {
  rangeRegistryContract((sentence, run) => test(`${name}: ${sentence}`, run), makeTarget)
}
