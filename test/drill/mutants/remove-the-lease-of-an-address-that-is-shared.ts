import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Deletes the lease of its address although another master there wants it.',
  invariant: 'no-address-goes-without-cause',
  file: 'kubernetes-service/leases/etcd/leases.ts',
  text: 'if (await this.#isHeldByOthers(holder, signal)) {',
  instead: 'if (this.#hasCoHolder) {',
}
