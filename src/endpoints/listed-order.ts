import type { Service } from '../kube/resources.ts'
import type { EndpointAddress } from './subset-equality.ts'
import { compareEndpointAddresses } from './subset-order.ts'

type Addresses = readonly (EndpointAddress | undefined)[]

const lastOrders = new WeakMap<Service, readonly number[]>()

/**
 * The places of the addresses in the order in which they are listed, those that are undefined somewhere in between.
 *
 * The order that was last found for the Service is given again if it still holds. It mostly does, because one Pod changes at a time, and to sort
 * thousands of addresses is most of the work of a sync.
 */
export function listedOrder(service: Service, addresses: Addresses): readonly number[] {
  const last = lastOrders.get(service)
  if (last !== undefined && holds(last, addresses)) return last
  const present: number[] = []
  const absent: number[] = []
  for (let place = 0; place < addresses.length; place++) (addresses[place] === undefined ? absent : present).push(place)
  present.sort((a, b) => compareEndpointAddresses(addresses[a] as EndpointAddress, addresses[b] as EndpointAddress))
  const order = [...present, ...absent]
  lastOrders.set(service, order)
  return order
}

function holds(order: readonly number[], addresses: Addresses): boolean {
  if (order.length !== addresses.length) return false
  let before: EndpointAddress | undefined
  for (const place of order) {
    const address = addresses[place]
    if (address === undefined) continue
    if (before !== undefined && compareEndpointAddresses(before, address) > 0) return false
    before = address
  }
  return true
}
