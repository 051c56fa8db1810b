import { after, before, describe, test } from 'node:test'
import { openOwner } from '../peers/owner.ts'
import { matrixCells, specialCells } from './fault-cells.ts'
import type { FaultSite } from './fault-fleet.ts'
import { judgeCells, startFaultSites } from './fault-matrix.ts'

// All cells: test/long/fault-matrix.test.ts.

/** Each fleet has its own kube-apiserver; a cell waits most of the time. */
const fleets = 5

describe('single faults between a master and its servers', { concurrency: false }, () => {
  const owner = openOwner({ after })
  let sites: readonly FaultSite[]
  before(async () => {
    sites = await startFaultSites(owner, fleets)
  })

  for (const store of ['etcd', 'kubernetes'] as const) {
    test(`with leases in ${store} no healthy master loses its address, no dead one stays, and all is in sync soon after the fault`, async (t) => {
      const special = specialCells(store).filter(({ lengthMs }) => lengthMs < 10_000)
      await judgeCells(t, [...special, ...matrixCells(store, 'eighth')], { store, sites })
    })
  }
})
