import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes its own address out at each start, as upstream does.',
  file: 'kubernetes-service/duty.ts',
  text: `    await this.#clearAway(signal)
`,
  instead: `    const { address, reconciler, securePort } = this.#options
    if (address !== undefined) await reconciler.clearAway?.(address, endpointPorts(securePort), signal).catch(() => {})
`,
}
