import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Renews the lease whether or not its API server answers.',
  invariant: 'dead-master-removed',
  file: 'kubernetes-service/membership/state.ts',
  text: 'return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < timings.answerFreshMs',
  instead: 'return true',
}
