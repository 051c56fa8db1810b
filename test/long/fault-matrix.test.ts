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
    test(`with leases in ${store} it costs no healthy master its address, keeps no dead one, and two seconds later all is right`, (t) =>
      judgeCells(t, [...specialCells(store), ...matrixCells(store, 'all')], { store, sites }))
  }
})
