import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Removes the lease that a later life of its master has taken over.',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: `      if (isOfAnotherLife(holderOf(current), holder)) return
`,
  instead: '',
}
