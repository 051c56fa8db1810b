import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Requests leases from etcd that last three times as long as configured.',
  invariant: 'dead-master-removed',
  file: 'kubernetes-service/leases/etcd/grants.ts',
  text: 'Promise.all([grant(seconds),',
  instead: 'Promise.all([grant(3 * seconds),',
}
