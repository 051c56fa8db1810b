import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Does not list the leases that have no holder record.',
  file: 'kubernetes-service/members.ts',
  text: "holder?.state !== 'unready' && holder?.state !== 'withdrawn'",
  instead: "holder !== undefined && holder.state !== 'unready' && holder.state !== 'withdrawn'",
}
