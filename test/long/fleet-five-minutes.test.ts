import { describe, test } from 'node:test'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { fleetWithKubeApiserver } from '../real/fleet-with-kube-apiserver.ts'

describe('three masters and a kube-apiserver in one fleet, for five minutes', { concurrency: 2 }, () => {
  for (const [name, startStore] of [
    ['etcd', startEtcd],
    ['kine', startKine],
  ] as const) {
    test(`on ${name} they list each other without writes, and each that stops or dies is removed in time`, (t) =>
      fleetWithKubeApiserver(t, { startStore, steadyMs: 300_000, restart: true }))
  }
})
