import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes the time that a renewal says it was made at for that of its own clock.',
  invariant: 'writes-bounded',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: 'this.#observer.isOver(nameOf(lease))',
  instead: `clock.wallMs() - Date.parse(lease.spec?.renewTime ?? '') > this.#options.ttlMs`,
}
