import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Decides what to write from the leases that it read last time.',
  file: 'kubernetes-service/membership/runner.ts',
  text: `      await this.readMembers(signal)
      const plan = `,
  instead: '      const plan = ',
}
