import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Leaves although no other master remains.',
  file: 'kubernetes-service/reconcilers/lease.ts',
  text: '        if (!othersRemain(await this.#read(signal), leaving)) {',
  instead: '        if (false) {',
}
