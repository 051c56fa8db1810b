import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes a server for one that serves when nothing but its etcd fails.',
  invariant: 'unready-master-leaves',
  file: 'kubernetes-service/membership/readiness.ts',
  text: 'return answer.answered && (answer.ready || answer.refused !== undefined)',
  instead: 'return answer.answered && (answer.ready || answer.refused !== undefined || failsByEtcd(answer))',
}
