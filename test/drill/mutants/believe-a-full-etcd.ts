import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Believes that masters have died whose leases ended while etcd took no writes.',
  file: 'kubernetes-service/leases/etcd-doubt.ts',
  text: `    return this.#phase.type !== 'none'`,
  instead: '    return false',
}
