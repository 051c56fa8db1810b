import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes its own address out at each start, as upstream does.',
  invariant: 'not-removed-by-others',
  file: 'kubernetes-service/membership/step.ts',
  text: `  if (state.server.readiness.phase !== 'starting') return joining`,
  instead: `  if (state.fleet.readAtMs === undefined) return read(state, turn)
  if (earlierLife(state) !== undefined && state.self.state !== 'unready') {
    if (state.lease.request !== undefined || turn.nowMs < state.lease.retryAtMs) return state
    return request(state, 'renew', { ...state.self, state: 'unready' }, turn)
  }
  if (state.server.readiness.phase !== 'starting') return joining`,
}
