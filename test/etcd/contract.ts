import type { TestContext } from 'node:test'
import type { EtcdContractTarget } from './contract/contract-case.ts'
import { keyCases } from './contract/key-cases.ts'
import { leaseCases } from './contract/lease-cases.ts'
import { listCases } from './contract/list-cases.ts'
import { signalCases } from './contract/signal-cases.ts'
import { watchCases } from './contract/watch-cases.ts'

export type { EtcdContractTarget } from './contract/contract-case.ts'

/**
 * What this program requires of etcd or kine, as tests: the same for the twin in this process and for real ones.
 *
 * @param test - node:test's, or a function that registers tests in the same way.
 * @param makeTarget - called for each case. The store may be the same each time, the prefix must not. The target
 *   removes what a case leaves behind.
 */
export function etcdContract(
  test: (name: string, run: (t: TestContext) => Promise<void>) => unknown,
  makeTarget: (t: TestContext) => EtcdContractTarget | Promise<EtcdContractTarget>,
): void {
  const cases = [...keyCases, ...listCases, ...leaseCases, ...watchCases, ...signalCases]
  for (const { name, run } of cases) test(name, async (t) => run(await makeTarget(t), t))
}
