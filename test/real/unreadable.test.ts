import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import { addressesIn, addressesInSlice } from '../../src/kubernetes-service/identity.ts'
import { startEtcd } from '../peers/etcd.ts'
import type { FaultRule } from '../peers/fault-rules.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import { addresses, type FaultFleet, type FaultSite, startFaultFleet, startFaultSite, ttlMs } from './fault-fleet.ts'

const [, ...remaining] = addresses
/** A dead master is gone a second after its TTL; the rest is for this machine. */
const goneWithinMs = ttlMs + 4_000
const refused = { type: 'answer', status: 500 } as const

describe('what cannot be read delays only what depends on it', () => {
  const owner = openOwner({ after })
  let site: FaultSite
  before(async () => {
    site = await startFaultSite(owner, await startEtcd(owner), '/unreadable')
  })

  const placeAt = (fleet: FaultFleet, rule: FaultRule) => fleet.masters.map((master) => master.place(rule))
  const untilListed = (list: 'Endpoints' | 'slice', listed: readonly string[], withinMs: number): Promise<void> =>
    untilPasses(
      `the ${list} to be right`,
      async () => {
        const { api } = site.server
        const found =
          list === 'Endpoints'
            ? addressesIn(await api.get<Endpoints>(paths.endpoints))
            : addressesInSlice(await api.get<EndpointSlice>(paths.slice))
        assert.deepEqual(found.toSorted(), listed)
      },
      { withinMs },
    )

  test('while the slices cannot be read, a dead master leaves the Endpoints and the slice in time', async (t) => {
    const fleet = await startFaultFleet(openOwner(t), site, 'etcd')
    const resources = ['endpointslices']
    const faults = [
      ...placeAt(fleet, { fault: refused, resources, verbs: ['get', 'list', 'watch'] }),
      ...placeAt(fleet, { fault: { type: 'cut-watches', everyMs: 500 }, resources }),
    ]
    await fleet.masters[0]?.kill()
    for (const list of ['Endpoints', 'slice'] as const) await untilListed(list, remaining, goneWithinMs)
    assert.ok(faults.some(({ hits }) => hits > 0))
    for (const fault of faults) fault.end()
    await fleet.whenRight(remaining, 10_000)
  })

  test('a fleet that restarts while Services cannot be read lists its masters and removes a dead one', async (t) => {
    const fleet = await startFaultFleet(openOwner(t), site, 'etcd')
    await Promise.all(fleet.masters.map((master) => master.kill()))
    const faults = placeAt(fleet, { fault: refused, resources: ['services'] })
    await Promise.all(fleet.masters.map((master) => master.start()))
    await site.server.api.merge(paths.endpoints, {
      subsets: [{ addresses: [{ ip: '198.51.100.1' }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }],
    })
    for (const list of ['Endpoints', 'slice'] as const) await untilListed(list, addresses, 10_000)
    await fleet.masters[0]?.kill()
    for (const list of ['Endpoints', 'slice'] as const) await untilListed(list, remaining, goneWithinMs)
    assert.ok(faults.every(({ hits }) => hits > 0))
    for (const fault of faults) fault.end()
    await fleet.whenRight(remaining, 10_000)
  })
})
