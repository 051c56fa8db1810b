import { test } from 'node:test'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { etcdContract } from './contract.ts'

for (const flavour of ['etcd', 'kine'] as const) {
  for (const connection of ['', ' over a connection without faults']) {
    etcdContract(
      (name, run) => test(`${flavour}${connection}: ${name}`, run),
      () => {
        const time = new VirtualClock()
        const clock = time.view()
        const store = new MemoryEtcd({ clock, flavour })
        const another = () => (connection === '' ? store.client() : faultyEtcd(store.client(), { clock }))
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
