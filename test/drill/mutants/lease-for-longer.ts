import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Asks etcd for a lease that lasts three times as long as it was told to.',
  file: 'kubernetes-service/leases/etcd/leases.ts',
  text: 'etcd.grantLease(seconds, signal)',
  instead: 'etcd.grantLease(3 * seconds, signal)',
}
