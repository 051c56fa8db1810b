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
 * The behaviour of an API server that this program relies on, as tests: the same for the embedded server and a real
 * one.
 *
 * @param test - the function of node:test, or one that registers tests in the same way.
 * @param makeTarget - called for each case. The server may be the same each time, the namespace must not. The namespace
 *   exists and is empty, and its name is at most 40 characters of a DNS label. The server has a ServiceCIDR with an
 *   IPv4 range, and none with 192.0.2.0/24, 198.51.100.0/24 or 203.0.113.0/24. The target deletes what a case leaves
 *   behind.
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
