import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'every-read-is-a-renewal': {
    broken: 'Takes each read of a Lease for a renewal, so that nobody takes over a dead leader’s.',
    file: 'kube/lease-lock.ts',
    text: 'if (claimOf(lease) !== claimOf(this.#lease))',
    instead: 'if (lease !== this.#lease)',
    tests: ['kube/leader-election.test.ts'],
  },
  'one-attempt-may-take-the-whole-deadline': {
    broken: 'One renewal that is not answered may take the whole deadline.',
    file: 'kube/leader-election.ts',
    text: 'Math.min(renewDeadlineMs / 2, leftMs)',
    instead: 'Math.min(renewDeadlineMs, leftMs)',
    tests: ['kube/leader-election.test.ts'],
  },
  'count-no-waits': {
    broken: 'Does not add up the waits that a server asked for.',
    file: 'kube/rest-api.ts',
    text: '      waitedMs += waitMs\n',
    instead: '',
    tests: ['kube/rest-api.test.ts'],
  },
  'forget-a-resource-that-was-served': {
    broken: 'A 404 after the first sync makes the informer say that it has not synced.',
    file: 'kube/informer.ts',
    text: "if (this.#state === 'starting') this.#state = 'absent'",
    instead: "this.#state = 'absent'",
    tests: ['kube/informer.test.ts'],
  },
}
