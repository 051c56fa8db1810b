import { test } from 'node:test'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { etcdContract } from './contract.ts'

for (const flavour of ['etcd', 'kine'] as const) {
  for (const way of ['', ' over a faultless way']) {
    etcdContract(
      (name, run) => test(`${flavour}${way}: ${name}`, run),
      () => {
        const time = new VirtualClock()
        const clock = time.view()
        const store = new MemoryEtcd({ clock, flavour })
        const another = () => (way === '' ? store.client() : faultyEtcd(store.client(), { clock }))
        return {
          flavour,
          etcd: another(),
          another,
          prefix: '/contract/',
          pass: (ms) => time.advance(ms),
          compact: async (revision) => store.compact(revision),
        }
      },
    )
  }
}
