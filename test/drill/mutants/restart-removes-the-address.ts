import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes its own address out at each start, as upstream does.',
  file: 'kubernetes-service/membership/step.ts',
  text: `  const { server, fleet, departures } = state
  if (server.readiness.phase !== 'starting')`,
  instead: `  const { server, fleet, departures, self, lease } = state
  if (fleet.readAtMs === undefined) return read(state, nowMs, timings, effects)
  if (hasEarlierLife(state) && self.state !== 'unready') {
    if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
    return request(state, 'mark', { ...self, state: 'unready' }, nowMs, timings, effects)
  }
  if (server.readiness.phase !== 'starting')`,
}
