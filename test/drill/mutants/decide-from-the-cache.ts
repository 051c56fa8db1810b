import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Decides what to write from the leases that it read last time.',
  invariant: 'listed-master-stays',
  file: 'kubernetes-service/membership/runner.ts',
  text: `      await this.refreshMembers(signal, isNew)
      const plan = `,
  instead: '      const plan = ',
}
