import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Confirms that another master may leave without asking its own server first.',
  file: 'kubernetes-service/membership/listed.ts',
  text: 'const asked = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)',
  instead: 'const asked = fleet.departures',
}
