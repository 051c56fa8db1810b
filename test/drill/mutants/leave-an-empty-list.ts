import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes its address out when it is told to stop although it is the last one, and its server answers.',
  file: 'kubernetes-service/membership/inputs.ts',
  text: `      mode,
      sinceAtMs: nowMs,
      step: mode === 'always' ? { type: 'removing' } : { type: 'probing', sinceAtMs: nowMs },
`,
  instead: `      mode: 'always',
      sinceAtMs: nowMs,
      step: { type: 'removing' },
`,
}
