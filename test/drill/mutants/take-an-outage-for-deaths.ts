import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Goes on counting the age of leases while it cannot read them.',
  file: 'kubernetes-service/leases/lease-observer.ts',
  text: '    if (this.#interrupted || nowMs - this.#lastReadMs > this.#maxGapMs) {',
  instead: '    if (false) {',
}
