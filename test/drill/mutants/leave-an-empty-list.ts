import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Removes its address at a stop although it is the last one and its server answers.',
  invariant: 'never-empty',
  file: 'kubernetes-service/membership/inputs.ts',
  text: "type: 'leaving', mode, sinceAtMs, step,",
  instead: "type: 'leaving', mode: 'always', sinceAtMs, step: { type: 'removing' },",
}
