import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { IpAddress, ServiceCidr } from '../../../src/kube/resources.ts'
import { Store } from '../../../src/kube/store.ts'
import { identityOfIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { BlockingAddresses } from '../../../src/service-cidr/protection/blocking-addresses.ts'
import { address, FINALIZER } from './cluster.ts'

/** A range among the 32 addresses of a family: it has 2 to the power of `bits` addresses, and contains this number. */
interface Range {
  readonly family: 4 | 6
  readonly bits: number
  readonly number: number
}

interface Ip {
  readonly family: 4 | 6
  readonly number: number
}

type Operation =
  | {
      readonly type: 'put'
      readonly name: string
      readonly ranges: readonly Range[]
      readonly deletedAt: number | undefined
      readonly isProtected: boolean
    }
  | { readonly type: 'remove'; readonly name: string }
  | { readonly type: 'allocate'; readonly ip: Ip; readonly isManaged: boolean }
  | { readonly type: 'release'; readonly ip: Ip }

const number = fc.nat(31)
const family = fc.constantFrom(4 as const, 6 as const)
const ip = fc.record({ family, number })
const name = fc.constantFrom('a', 'b', 'c', 'd')
const range = (of: 4 | 6) => fc.record({ family: fc.constant(of), bits: fc.nat(5), number })
const ranges: fc.Arbitrary<readonly Range[]> = fc.oneof(
  range(4).map((one) => [one]),
  range(6).map((one) => [one]),
  fc.tuple(range(4), range(6)),
)
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({
    type: fc.constant('put' as const),
    name,
    ranges,
    deletedAt: fc.option(fc.nat(2), { nil: undefined }),
    isProtected: fc.boolean(),
  }),
  fc.record({ type: fc.constant('remove' as const), name }),
  fc.record({ type: fc.constant('allocate' as const), ip, isManaged: fc.boolean() }),
  fc.record({ type: fc.constant('release' as const), ip }),
)

type Put = Extract<Operation, { readonly type: 'put' }>

/**
 * Whether Services get the address from the range: the rule of upstream's `PrefixContainsIP`, computed with numbers.
 */
function gives({ family, bits, number }: Range, ip: Ip): boolean {
  const size = 2 ** bits
  const network = number - (number % size)
  if (ip.family !== family || ip.number < network || ip.number >= network + size) return false
  return ip.number !== network && (family === 6 || ip.number !== network + size - 1)
}

/** The naive model: each allocated address of the ServiceCIDR must be in another one that stays. */
function isBlocked(own: Put, all: readonly Put[], managed: readonly Ip[]): boolean {
  const staying = all.filter((other) => {
    if (other.name === own.name) return false
    if (other.deletedAt === undefined) return true
    const isLater =
      other.deletedAt > (own.deletedAt ?? 0) || (other.deletedAt === own.deletedAt && other.name > own.name)
    return other.isProtected && isLater
  })
  const has = (put: Put, ip: Ip): boolean => put.ranges.some((range) => gives(range, ip))
  return managed.some((ip) => has(own, ip) && !staying.some((other) => has(other, ip)))
}

const nameOf = ({ family, number }: Ip): string =>
  family === 4 ? `10.0.0.${number}` : number === 0 ? 'fd00::' : `fd00::${number.toString(16)}`

function serviceCidr({ name, ranges, deletedAt, isProtected }: Put): ServiceCidr {
  const cidrs = ranges.map(({ family, bits, number }) => {
    const network = nameOf({ family, number: number - (number % 2 ** bits) })
    return `${network}/${(family === 4 ? 32 : 128) - bits}`
  })
  const deletionTimestamp = deletedAt === undefined ? {} : { deletionTimestamp: `2026-01-01T00:00:0${deletedAt}Z` }
  return {
    metadata: { name, finalizers: isProtected ? [FINALIZER] : [], ...deletionTimestamp },
    spec: { cidrs },
  }
}

test('after any history the index agrees with a naive model, and reports each change of its result', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(operation, fc.boolean()), { maxLength: 60, size: 'max' }), (history) => {
      const store = new Store<IpAddress>()
      const blocking = new BlockingAddresses(store)
      const puts = new Map<string, Put>()
      const managed = new Map<string, Ip>()
      let version = 0
      const check = (): ReadonlyMap<string, boolean> => {
        const all = [...puts.values()]
        const deleting = all.filter(({ deletedAt }) => deletedAt !== undefined)
        return new Map(
          deleting.map((own) => {
            const found = blocking.isBlocked(serviceCidr(own), all.map(serviceCidr))
            assert.equal(found, isBlocked(own, all, [...managed.values()]), own.name)
            return [own.name, found]
          }),
        )
      }
      const changeAddress = (ip: Ip, object: IpAddress | undefined): void => {
        const before = check()
        const name = nameOf(ip)
        if (object?.metadata?.labels === undefined) managed.delete(name)
        else managed.set(name, ip)
        const old = store.get({ name })
        const event = object === undefined ? ('DELETED' as const) : ('MODIFIED' as const)
        const change = store.apply({ type: event, object: object ?? old ?? address(name) })
        const reported = change === undefined ? [] : blocking.apply(change)
        const after = check()
        const differing = [...after].filter(([name, isBlocked]) => before.get(name) !== isBlocked)
        assert.deepEqual(reported.toSorted(), differing.map(([name]) => name).sort())
      }
      for (const [step, isChecked] of history) {
        switch (step.type) {
          case 'put':
            puts.set(step.name, step)
            if (step.deletedAt === undefined) blocking.forget(step.name)
            break
          case 'remove':
            puts.delete(step.name)
            blocking.forget(step.name)
            break
          case 'allocate': {
            const name = nameOf(step.ip)
            const whole = address(name)
            const labels = step.isManaged ? whole.metadata?.labels : {}
            const metadata = { ...whole.metadata, labels, resourceVersion: String(++version) }
            changeAddress(step.ip, identityOfIpAddress({ ...whole, metadata } as IpAddress))
            break
          }
          case 'release':
            changeAddress(step.ip, undefined)
        }
        if (isChecked) check()
      }
    }),
    { numRuns: 2_000 },
  )
})
