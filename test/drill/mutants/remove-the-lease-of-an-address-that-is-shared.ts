import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Deletes the lease of its address although another master there wants it.',
  file: 'kubernetes-service/leases/etcd/leases.ts',
  text: 'this.#hasCoHolder || (await this.#isHeldByOthers(holder, signal))) return',
  instead: 'this.#hasCoHolder) return',
}
