import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Goes on renewing its lease after it was told to stop.',
  file: 'kubernetes-service/duty.ts',
  text: '    await Promise.all([controller.run(signal), membership?.keep(signal)])',
  instead: `    void membership?.keep(new AbortController().signal).catch(() => {})
    await controller.run(signal)`,
}
