import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Confirms that it serves whatever its own server answers.',
  invariant: 'unready-leaves-only-for-ready',
  file: 'kubernetes-service/membership/step.ts',
  text: `  if (!server.serving && (renewing || answerable.length > 0)) return failing
  if (self.state === 'failing' && !isHealthy) return failing
  return { ...self, state: 'ready', departure: undefined, reason: undefined, confirms }`,
  instead: `  if (!server.serving && renewing && answerable.length === 0) return failing
  if (self.state === 'failing' && !isHealthy && answerable.length === 0) return failing
  return { ...self, state: 'ready', departure: undefined, reason: undefined, confirms: fleet.departures.map(({ id }) => id) }`,
}
