import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Keeps the addresses of masters whose leases have ended.',
  file: 'kubernetes-service/membership/fleet.ts',
  text: '    missing,\n    departures:',
  instead: '    missing: [],\n    departures:',
}
