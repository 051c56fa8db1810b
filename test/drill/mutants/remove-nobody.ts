import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Keeps the addresses of masters whose leases have ended.',
  invariant: 'stopped-master-leaves',
  file: 'kubernetes-service/membership/fleet.ts',
  text: '    missing,\n    departures:',
  instead: '    missing: [],\n    departures:',
}
