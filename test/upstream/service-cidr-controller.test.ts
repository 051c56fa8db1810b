// The table sync runs the whole controller, which also processes the other ServiceCIDRs of a case. Only the writes to
// the ServiceCIDR that upstream syncs count. Upstream notes that it cannot assert that a ServiceCIDR within the grace
// period is tried again; here time passes.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ServiceCidr } from '../../src/kube/resources.ts'
import { addressTest, rangesOf } from '../../src/repair/ip-address/service-ips.ts'
import { BlockingAddresses } from '../../src/service-cidr/protection/blocking-addresses.ts'
import { overlapping } from '../../src/service-cidr/protection/coverage.ts'
import { address, Cluster, FINALIZER } from '../service-cidr/protection/cluster.ts'
import { type GivenServiceCidr, serviceCidrController } from './service-cidr-tables.ts'

const { file, tables } = serviceCidrController

function serviceCidr({ name, cidrs }: GivenServiceCidr): ServiceCidr {
  return { metadata: { name }, spec: { cidrs } }
}

function names(found: readonly ServiceCidr[]): readonly string[] {
  return found.map(({ metadata }) => metadata?.name ?? '').sort()
}

describe(`${file}, sync`, () => {
  for (const { name, given, call, expect } of tables.sync) {
    test(name, async () => {
      const cluster = await Cluster.started()
      const deletedMs: number[] = []
      for (const { name, cidrs, ...state } of given.serviceCidrs) {
        await cluster.create(name, cidrs, state.protected === true ? [FINALIZER] : [])
        if (state.deletedSecondsAgo === undefined) continue
        await cluster.delete(name)
        deletedMs.push(state.deletedSecondsAgo * 1_000)
      }
      for (const ip of given.ipAddresses) await cluster.allocate(ip)
      await cluster.pass(Math.max(0, ...deletedMs))
      const end = await cluster.lead()
      const about = (requests: readonly string[]): readonly string[] =>
        requests
          .filter((request) => request.split(' ')[1] === call.name)
          .map((request) => request.replace(` ${call.name}`, ' servicecidrs').replace(' 200', ''))
      assert.deepEqual(about(cluster.written()), expect.actions)
      await cluster.pass(10_000)
      const isWithinGrace = deletedMs.includes(0)
      assert.deepEqual(about(cluster.written()), isWithinGrace ? ['patch servicecidrs'] : [])
      await end()
    })
  }
})

describe(`${file}, canDeleteCidr`, () => {
  for (const { name, given, call, expect } of tables.canDeleteCidr) {
    test(name, () => {
      const blocking = new BlockingAddresses(given.ipAddresses.map(address))
      const isBlocked = blocking.isBlocked(serviceCidr(call.serviceCidr), given.serviceCidrs.map(serviceCidr))
      assert.equal(!isBlocked, expect.canDelete)
    })
  }
})

describe(`${file}, ipToCidrs`, () => {
  for (const { name, given, call, expect } of tables.ipToCidrs) {
    test(name, () => {
      const found = given.serviceCidrs.map(serviceCidr).filter((one) => addressTest(rangesOf(one))(call.ipAddress))
      assert.deepEqual(names(found), expect.names)
    })
  }
})

describe(`${file}, cidrToCidrs`, () => {
  for (const { name, given, call, expect } of tables.cidrToCidrs) {
    test(name, () => {
      const found = overlapping(serviceCidr(call.serviceCidr), given.serviceCidrs.map(serviceCidr))
      assert.deepEqual(names(found), expect.names)
    })
  }
})
