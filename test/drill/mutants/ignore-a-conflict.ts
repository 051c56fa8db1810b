import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes a lease that was renewed at the last moment for collected.',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: `      if (isKubeError(error, 'Conflict')) return false
`,
  instead: `      if (isKubeError(error, 'Conflict')) return true
`,
}
