import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Deletes the lease of its address although another master there wants it.',
  file: 'kubernetes-service/leases/etcd/leases.ts',
  text: 'if (await this.#isHeldByOthers(holder, signal)) {',
  instead: 'if (this.#hasCoHolder) {',
}
