import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Leaves for unreadiness at once, while the others are perhaps about to do the same.',
  file: 'kubernetes-service/lease-membership.ts',
  text: `    if (announcedState === 'ready') {`,
  instead: `    if (announcedState === 'ready') return 'unready'
    if (announcedState === 'leaving') {`,
}
