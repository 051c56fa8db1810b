import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Does not list the leases that have no holder record.',
  invariant: 'nobody-taken-for-a-foreign-writer',
  file: 'kubernetes-service/members.ts',
  text: "holder?.state !== 'unready' && holder?.state !== 'withdrawn'",
  instead: "holder !== undefined && holder.state !== 'unready' && holder.state !== 'withdrawn'",
}
