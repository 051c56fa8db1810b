import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Does not read the leases when the store says that they changed.',
  invariant: 'stopped-master-leaves',
  file: 'kubernetes-service/membership/inputs.ts',
  text: `      return { ...state, fleet: { ...state.fleet, isReadDue: true } }
`,
  instead: `      return state
`,
}
