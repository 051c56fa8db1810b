import type { Finding } from '../../../src/verify/cluster/finding.ts'
import type { VerifyReport } from '../../../src/verify/cluster/verify-cluster.ts'

export function findingsOf({ results }: VerifyReport): readonly Finding[] {
  return results.flatMap((result) => (result.status === 'failed' ? result.findings : []))
}
