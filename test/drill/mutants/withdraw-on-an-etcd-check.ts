import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes a failing etcd check for a server that does not serve.',
  file: 'kubernetes-service/readiness-tracker.ts',
  text: `  return failing.length > 0 && failing.every((check) => check.name === 'etcd' || check.name === 'etcd-readiness')`,
  instead: '  return false',
}
