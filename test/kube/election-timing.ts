import type { LeaderElectionTiming } from '../../src/kube/leader-election.ts'

/** The defaults of client-go, of every Kubernetes component, and of this program. */
export const defaultLeaderElectionTiming: LeaderElectionTiming = {
  leaseDurationMs: 15_000,
  renewDeadlineMs: 10_000,
  retryPeriodMs: 2_000,
}
