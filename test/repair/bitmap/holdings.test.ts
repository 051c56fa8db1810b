import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Service } from '../../../src/kube/resources.ts'
import { Store } from '../../../src/kube/store.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims } from '../../../src/repair/bitmap/claims.ts'
import { RangeHoldings, surveyServices } from '../../../src/repair/bitmap/holdings.ts'
import { atOnce } from '../../../src/runtime/steps.ts'
import { objectMapOf } from '../../kube/object-map-of.ts'
import { someServices } from './samples.ts'

const kinds = [
  nodePortClaims(parsePortRange('30000-30015')),
  clusterIpClaims([parseCidr('10.0.0.0/28'), parseCidr('fd00::/124')]),
]

test('after any changes the tracked numbers equal those of a survey of all Services', () => {
  fc.assert(
    fc.property(fc.constantFrom(...kinds), fc.array(someServices, { maxLength: 4 }), (claims, states) => {
      const store = new Store<Service>()
      const holdings = new RangeHoldings(claims)
      for (const services of states) {
        for (const change of atOnce(store.replace(objectMapOf(services)))) holdings.apply(change)
        atOnce(surveyServices(store.list(), claims)).held.forEach((held, range) => {
          assert.deepEqual([...holdings.held(range)], [...held])
        })
      }
    }),
  )
})
