import { compareTexts } from '../runtime/compare-texts.ts'
import { getOrMake } from '../runtime/memo.ts'

/**
 * The items in the order in which kube-controller-manager writes them: by the hashes of their Go form, which `goText`
 * returns. If they are in order already, returns the same list. `known` has the hashes of items that occur in several
 * lists; it is completed.
 */
export function inHashOrder<T>(items: readonly T[], goText: (item: T) => string, known?: Map<T, string>): readonly T[] {
  if (items.length < 2) return items
  const hashed = items.map((item) => {
    const hash = (): string => fnv128a(goText(item))
    return { item, hash: known === undefined ? hash() : getOrMake(known, item, hash) }
  })
  if (hashed.every(({ hash }, index) => index === 0 || (hashed[index - 1]?.hash ?? '') <= hash)) return items
  return hashed.sort((a, b) => compareTexts(a.hash, b.hash)).map(({ item }) => item)
}

const OFFSET = 0x6c62272e07bb014262b821756295c58dn
/** The low part of the prime, which is 2^88 + 0x13b. */
const FACTOR = 0x13b
/**
 * The hash is held in six limbs, the lowest first, so that no product exceeds 31 bits, and 2^88 is a shift by four
 * limbs.
 */
const LIMB_BITS = 22
const limbMask = 2 ** LIMB_BITS - 1
const topMask = 2 ** (128 - 5 * LIMB_BITS) - 1
const encoder = new TextEncoder()

/** FNV-1a of 128 bits over the UTF-8 of a text, in 32 hexadecimal digits: as Go's `fnv.New128a`. */
export function fnv128a(text: string): string {
  let [h0, h1, h2, h3, h4, h5] = [limb(0), limb(1), limb(2), limb(3), limb(4), limb(5)]
  const bytes = encoder.encode(text)
  // The loop uses an index, because an iterator takes twice the time.
  for (let index = 0; index < bytes.length; index++) {
    h0 ^= bytes[index] as number
    const low = h0
    const second = h1
    let product = h0 * FACTOR
    h0 = product & limbMask
    product = h1 * FACTOR + (product >>> LIMB_BITS)
    h1 = product & limbMask
    product = h2 * FACTOR + (product >>> LIMB_BITS)
    h2 = product & limbMask
    product = h3 * FACTOR + (product >>> LIMB_BITS)
    h3 = product & limbMask
    product = h4 * FACTOR + (product >>> LIMB_BITS) + low
    h4 = product & limbMask
    product = h5 * FACTOR + (product >>> LIMB_BITS) + second
    h5 = product & topMask
  }
  const hash = [h5, h4, h3, h2, h1, h0].reduce((value, part) => (value << BigInt(LIMB_BITS)) | BigInt(part), 0n)
  return hash.toString(16).padStart(32, '0')
}

function limb(index: number): number {
  return Number((OFFSET >> BigInt(index * LIMB_BITS)) & BigInt(limbMask))
}
