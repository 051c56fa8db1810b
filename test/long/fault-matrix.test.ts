import { after, before, describe, test } from 'node:test'
import { openOwner } from '../peers/owner.ts'
import { matrixCells, specialCells } from '../real/fault-cells.ts'
import type { FaultSite } from '../real/fault-fleet.ts'
import { judgeCells, startFaultSites } from '../real/fault-matrix.ts'

describe('every single fault of every resource', { concurrency: false }, () => {
  const owner = openOwner({ after })
  let sites: readonly FaultSite[]
  before(async () => {
    sites = await startFaultSites(owner, 4)
  })

  for (const store of ['etcd', 'kubernetes'] as const) {
    test(`with leases in ${store} no healthy master loses its address, no dead one stays, and all is in sync soon after the fault`, (t) =>
      judgeCells(t, [...specialCells(store), ...matrixCells(store, 'all')], { store, sites }))
  }
})
