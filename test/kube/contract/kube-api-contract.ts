import type { TestContext } from 'node:test'
import type { ContractTarget } from './contract-case.ts'
import { deletionCases } from './deletion-cases.ts'
import { endpointsCases } from './endpoints-cases.ts'
import { kindCases } from './kind-cases.ts'
import { listCases } from './list-cases.ts'
import { objectCases } from './object-cases.ts'
import { patchCases } from './patch-cases.ts'
import { serviceCases } from './service-cases.ts'
import { watchCases } from './watch-cases.ts'

export type { ContractTarget } from './contract-case.ts'

/**
 * What this program relies on in an API server, as tests: the same on the embedded server and on a real one.
 *
 * @param test - node:test's, or something that registers like it.
 * @param makeTarget - called for each case. The server may be the same each time, the namespace may not; it exists, is empty, and
 *   its name is at most 40 characters of a DNS label. The server has a ServiceCIDR with an IPv4 range, and none with 192.0.2.0/24,
 *   198.51.100.0/24 or 203.0.113.0/24. What a case leaves behind is the target's to clear away.
 */
export function kubeApiContract(
  test: (name: string, run: (t: TestContext) => Promise<void>) => unknown,
  makeTarget: (t: TestContext) => ContractTarget | Promise<ContractTarget>,
): void {
  for (const { name, run } of allCases) test(name, async (t) => run(await makeTarget(t), t))
}

const allCases = [
  ...objectCases,
  ...deletionCases,
  ...endpointsCases,
  ...kindCases,
  ...serviceCases,
  ...listCases,
  ...patchCases,
  ...watchCases,
]
