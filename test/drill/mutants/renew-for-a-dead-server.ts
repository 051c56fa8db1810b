import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Renews the lease whether or not its API server answers.',
  file: 'kubernetes-service/membership/state.ts',
  text: 'return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < timings.answerFreshMs',
  instead: 'return true',
}
