// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources have templates
import type { TestedMutant } from '../mutant.ts'

/** Drawn by seed. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'etcd-kv-number': {
    broken: 'isEtcdError: has 1 for 0.',
    file: 'etcd/kv.ts',
    text: 'return error instanceof EtcdError && (codes.length === 0 || codes.includes(error.code))',
    instead: 'return error instanceof EtcdError && (codes.length === 1 || codes.includes(error.code))',
    tests: ['etcd/connect-etcd.test.ts'],
  },
  'etcd-memory-etcd-term': {
    broken: 'constructor: drops options.expiryStepMs ??.',
    file: 'etcd/memory-etcd.ts',
    text: 'this.#expiryStepMs = options.expiryStepMs ?? 0',
    instead: 'this.#expiryStepMs = 0',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-memory-etcd-faults-branch': {
    broken: 'held: always takes the first of last === undefined ? hold(changes) : last.then(() => hold(ch.',
    file: 'etcd/memory-etcd-faults.ts',
    text: 'const held = last === undefined ? hold(changes) : last.then(() => hold(changes))',
    instead: 'const held = hold(changes)',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-memory-etcd-term-2': {
    broken: '#goesAtMs: drops Math.ceil((endsAtMs - phase) / step) * step +.',
    file: 'etcd/memory-etcd.ts',
    text: 'return step === 0 ? endsAtMs : Math.ceil((endsAtMs - phase) / step) * step + phase',
    instead: 'return step === 0 ? endsAtMs : phase',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-memory-etcd-await': {
    broken: 'turn: does not wait for undefined.',
    file: 'etcd/memory-etcd.ts',
    text: 'signal.throwIfAborted()\n      await undefined',
    instead: 'signal.throwIfAborted()\n      void undefined',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-connect-connection-negation': {
    broken: 'usable: drops the "not" of !this.#session.closed.',
    file: 'etcd/connect-connection.ts',
    text: 'return this.#failure === undefined && !this.#session.closed && !this.#session.destroyed',
    instead: 'return this.#failure === undefined && this.#session.closed && !this.#session.destroyed',
    tests: ['etcd/connect-connection.test.ts'],
  },
  'etcd-connect-connection-number': {
    broken: 'request: has 1 for 0.',
    file: 'etcd/connect-connection.ts',
    text: 'this.#streams--\n      if (this.#streams === 0) this.#rest()',
    instead: 'this.#streams--\n      if (this.#streams === 1) this.#rest()',
    tests: ['etcd/connect-connection.test.ts'],
  },
  'etcd-memory-etcd-history-method': {
    broken: 'first: calls min for Math.max.',
    file: 'etcd/memory-etcd.ts',
    text: 'const first = Math.max(',
    instead: 'const first = Math.min(',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-connect-credentials-number': {
    broken: 'own: has 2 for 1.',
    file: 'etcd/connect-credentials.ts',
    text: 'const own = validitiesIn(cert).slice(0, 1)',
    instead: 'const own = validitiesIn(cert).slice(0, 2)',
    tests: ['etcd/connect-credentials.test.ts'],
  },
  'etcd-memory-etcd-negation': {
    broken: 'deliver:: drops the "not" of !signal.aborted.',
    file: 'etcd/memory-etcd.ts',
    text: 'if (!signal.aborted) onChange(changes)',
    instead: 'if (signal.aborted) onChange(changes)',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-connect-failure-operator': {
    broken: 'reasonOf:: has !== for === after code.',
    file: 'etcd/connect-failure.ts',
    text: "if (code === 'ECONNRESET' && tls !== undefined) return ['Unreachable', 'connection reset in the TLS handshake']",
    instead:
      "if (code !== 'ECONNRESET' && tls !== undefined) return ['Unreachable', 'connection reset in the TLS handshake']",
    tests: ['etcd/connect-failure.test.ts'],
  },
  'etcd-memory-etcd-flag': {
    broken: 'client:: says false for true.',
    file: 'etcd/memory-etcd.ts',
    text: 'return true',
    instead: 'return false',
    tests: ['etcd/memory-etcd-contract.test.ts'],
  },
}
