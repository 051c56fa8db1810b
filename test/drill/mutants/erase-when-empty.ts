import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Writes an empty list when the leases name nobody.',
  file: 'kubernetes-service/endpoints-plan.ts',
  text: `  if (addresses.length === 0 && !stopping) return { type: 'refuse' }
`,
  instead: '',
}
