import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Does not read the leases when the store says that they changed.',
  file: 'kubernetes-service/membership/inputs.ts',
  text: `      return { ...state, fleet: { ...state.fleet, isReadDue: true } }
`,
  instead: `      return state
`,
}
