import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes its address out when it is told to stop although it is the last one, and its server answers.',
  file: 'kubernetes-service/duty.ts',
  text: "} else if (mode === 'withdraw' && reconciler.leave !== undefined && (await monitor.probe(signal)).answered) {",
  instead: '} else if (false) {',
}
