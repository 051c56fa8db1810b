import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes a server for one that serves when nothing but its etcd fails.',
  file: 'kubernetes-service/membership/readiness.ts',
  text: 'return answer.answered && (answer.ready || answer.refused !== undefined)',
  instead: 'return answer.answered && (answer.ready || answer.refused !== undefined || failsByEtcd(answer))',
}
