import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Counts the time in which it could not read leases as time in which nobody renewed them.',
  file: 'kubernetes-service/leases/lease-observer.ts',
  text: '        this.#sightings.set(key, { ...sighting, sinceMs: nowMs, confirmedMs: undefined })',
  instead: '        this.#sightings.set(key, { ...sighting, confirmedMs: sighting.sinceMs })',
}
