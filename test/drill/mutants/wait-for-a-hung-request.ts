import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Waits for a request of the lease store that hangs.',
  file: 'kubernetes-service/membership/runner.ts',
  text: 'return within(this.#options.clock, limitMs, this.#signal, call)',
  instead: 'return call(this.#signal as AbortSignal)',
}
