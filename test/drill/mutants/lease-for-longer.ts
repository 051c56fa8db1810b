import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Asks etcd for a lease that lasts three times as long as it was told to.',
  invariant: 'dead-master-removed',
  file: 'kubernetes-service/leases/etcd/leases.ts',
  text: 'Promise.all([grant(seconds),',
  instead: 'Promise.all([grant(3 * seconds),',
}
