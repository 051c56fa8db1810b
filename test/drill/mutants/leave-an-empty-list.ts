import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes its address out when it is told to stop although it is the last one, and its server answers.',
  invariant: 'never-empty',
  file: 'kubernetes-service/membership/inputs.ts',
  text: "type: 'leaving', mode, sinceAtMs, step,",
  instead: "type: 'leaving', mode: 'always', sinceAtMs, step: { type: 'removing' },",
}
