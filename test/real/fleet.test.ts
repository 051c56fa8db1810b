import { describe, test } from 'node:test'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { fleetWithKubeApiserver } from './fleet-with-kube-apiserver.ts'

// Five minutes of it: test/long/fleet-five-minutes.test.ts.
describe('three masters and a kube-apiserver in one fleet', { concurrency: 2 }, () => {
  for (const [name, startStore] of [
    ['etcd', startEtcd],
    ['kine', startKine],
  ] as const) {
    test(`on ${name} they list each other; a killed one leaves when its lease expires, a stopped one with the next write`, (t) =>
      fleetWithKubeApiserver(t, { startStore, steadyMs: 12_000 }))
  }
})
