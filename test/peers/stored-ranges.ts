import { decodeRangeAllocation, encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import type { Etcd } from './etcd.ts'
import { changeValue, storedValues, storeValue } from './stored-values.ts'

/**
 * The bitmaps of kube-apiserver in etcd, as sets. This file reads and writes their bits without the program's own
 * bitmap.
 */

export type StoredRangeName = 'serviceips' | 'secondaryserviceips' | 'servicenodeports'

export interface StoredRange {
  /** Such as `10.96.0.0/12` or `30000-32767`. */
  readonly range: string
  /** The numbers of the addresses or ports that are taken. */
  readonly taken: ReadonlySet<number>
}

export function rangeKey(name: StoredRangeName): string {
  return `/registry/ranges/${name}`
}

/** Undefined while there is none. */
export async function storedRange(etcd: Etcd, name: StoredRangeName): Promise<StoredRange | undefined> {
  const key = rangeKey(name)
  const value = (await storedValues(etcd, key)).get(key)
  return value === undefined ? undefined : storedRangeIn(value)
}

/** Writes a range, regardless of what is stored. */
export async function storeRange(etcd: Etcd, name: StoredRangeName, { range, taken }: StoredRange): Promise<void> {
  await storeValue(etcd, rangeKey(name), encodeRangeAllocation({ range, data: bytesOf(taken) }))
}

/**
 * Changes which numbers of a range are taken, in one step, so that no change that a server makes meanwhile is lost.
 * Resolves to the revision of the write.
 */
export async function changeRange(
  etcd: Etcd,
  name: StoredRangeName,
  change: (taken: Set<number>) => void,
): Promise<number> {
  return changeValue(etcd, rangeKey(name), (value) => {
    const allocation = decodeRangeAllocation(value)
    if (allocation.type !== 'protobuf') throw new Error(`${rangeKey(name)} is ${allocation.type}`)
    const { range, data } = allocation
    const taken = numbersIn(data)
    change(taken)
    return encodeRangeAllocation({ range, data: bytesOf(taken) }, allocation)
  })
}

/**
 * The number of an IPv4 address in `serviceips` (0 is the first usable address), or of a port in `servicenodeports`.
 */
export function numberIn({ range }: StoredRange, item: string | number): number {
  if (typeof item === 'number') return item - Number(range.split('-')[0])
  return numberOf(item) - numberOf(range.split('/')[0] as string) - 1
}

/** Decodes a stored value. */
export function storedRangeIn(value: Uint8Array): StoredRange {
  const allocation = decodeRangeAllocation(value)
  if (allocation.type === 'unreadable') throw new Error('the range cannot be read')
  return { range: allocation.range, taken: numbersIn(allocation.data) }
}

/** Big-endian: number 0 is the lowest bit of the last byte. */
function numbersIn(data: Uint8Array): Set<number> {
  const numbers = new Set<number>()
  for (const [index, byte] of [...data].reverse().entries())
    for (let bit = 0; bit < 8; bit++) if (byte & (1 << bit)) numbers.add(index * 8 + bit)
  return numbers
}

function bytesOf(numbers: ReadonlySet<number>): Uint8Array {
  const bytes = new Uint8Array((Math.max(-1, ...numbers) >> 3) + 1)
  for (const number of numbers) {
    const at = bytes.length - 1 - (number >> 3)
    bytes[at] = (bytes[at] as number) | (1 << (number & 7))
  }
  return bytes
}

function numberOf(address: string): number {
  return address.split('.').reduce((value, part) => value * 256 + Number(part), 0)
}
