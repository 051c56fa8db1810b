import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Does not list the leases that have no holder record.',
  file: 'kubernetes-service/members.ts',
  text: "leases.filter(({ holder }) => holder === undefined || holder.state === 'ready' || holder.state === 'failing')",
  instead: "leases.filter(({ holder }) => holder?.state === 'ready' || holder?.state === 'failing')",
}
