import { randomBytes } from 'node:crypto'
import type { Random } from './random.ts'

/** A Random that nobody can foresee, from the operating system: 53 bits a number. */
export function systemRandom(): Random {
  return {
    next() {
      const bytes = randomBytes(7)
      // 48 bits, then five more: the 53 that a double holds.
      return (bytes.readUIntBE(0, 6) * 32 + (bytes.readUInt8(6) & 31)) / 2 ** 53
    },
  }
}
