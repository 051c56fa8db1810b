import { describe, test } from 'node:test'
import { matrixCells, specialCells } from './fault-cells.ts'
import type { LeaseStore } from './fault-fleet.ts'
import { judgeCells } from './fault-matrix.ts'

/** A kube-apiserver each; most of a cell is waiting. */
const fleets = 3

describe('single faults between one master and its servers', { concurrency: 2 }, () => {
  for (const store of ['etcd', 'kubernetes'] as const satisfies readonly LeaseStore[]) {
    test(`with leases in ${store} they cost no healthy master its address, keep no dead one, and two seconds later all is right`, (t) =>
      judgeCells(t, [...specialCells(store), ...matrixCells(store)], { store, fleets }))
  }
})
