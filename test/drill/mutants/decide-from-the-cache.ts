import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Decides what to write from the leases that it read last time.',
  file: 'kubernetes-service/reconcilers/lease.ts',
  text: `    const live = await this.#read(signal)
    const leases`,
  instead: `    const live = this.#lastRead
    const leases`,
}
