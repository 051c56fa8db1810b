import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Renews the lease whether or not its API server answers.',
  file: 'kubernetes-service/lease-keeper.ts',
  text: `    while (!(await monitor.probe(signal)).answered) await sleep(clock, RETRY_MS, signal)
`,
  instead: '',
}
