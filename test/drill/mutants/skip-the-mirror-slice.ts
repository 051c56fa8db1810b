import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Makes the EndpointSlice, and does not change it any more.',
  file: 'kubernetes-service/endpoints-adapter.ts',
  text: `        await this.#writer.update(endpointSlices, action.slice, action.reasons, signal)
`,
  instead: '',
}
