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
  'a-broken-watch-is-nobodys-business': {
    broken: 'An outage ends while the watches that broke with it are still closed.',
    file: 'kube/reflector.ts',
    text: 'availability.interrupted(this.#source)',
    instead: 'availability.outages',
    tests: ['kube/reflector.test.ts'],
  },
  'keep-the-memory-of-long-answers': {
    broken: 'Leaves the memory of a long answer to the garbage collector.',
    file: 'kube/http-streams.ts',
    text: '    this.#large?.resize(0)\n',
    instead: '',
    tests: ['kube/http-streams.test.ts'],
  },
  'refuse-in-an-outage': {
    broken: 'Logs each refusal of a server that also fails in other ways.',
    file: 'kube/availability.ts',
    text: 'lasts && !hidden && ',
    instead: 'lasts && ',
    tests: ['kube/availability.test.ts'],
  },
  'hide-what-outlasts-the-outage': {
    broken: 'Never logs a symptom that began in an outage.',
    file: 'telemetry/outages.ts',
    text: "if (this.#state === 'logged' && nowMs - this.#loggedMs < againMs) return\n",
    instead: "if (this.#state !== 'absent' && nowMs - this.#loggedMs < againMs) return\n",
    tests: ['telemetry/outages.test.ts'],
  },
  'leave-out-after-one-404': {
    broken: 'Leaves a duty out after the first answer of discovery that denies its kind.',
    file: 'kube/served-resources.ts',
    text: 'const HOLD_MS = 4_000\n',
    instead: 'const HOLD_MS = 0\n',
    tests: ['kube/served-resources.test.ts', 'bootstrap/duty-suspender.test.ts'],
  },
  'leave-out-beside-a-server-that-starts': {
    broken: 'Believes the discovery of a server that is not ready.',
    file: 'kube/served-resources.ts',
    text: 'answer === false && !isReady() ? undefined : answer',
    instead: 'answer',
    tests: ['kube/served-resources.test.ts'],
  },
}
