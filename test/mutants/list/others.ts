import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'false-in-a-file-counts-as-given': {
    broken: 'Takes a setting that a file sets to false for one that was asked for.',
    file: 'config/resolve.ts',
    text: '(given.file[other] !== undefined && given.file[other] !== false)',
    instead: 'given.file[other] !== undefined',
    tests: ['config/resolve.test.ts', 'config/rules.test.ts'],
  },
  'a-dry-run-update-reserves': {
    broken: 'An update that is only tried takes the addresses and ports that it would need.',
    file: 'apiserver/writes.ts',
    text: `  if (options.dryRun || (!changed && equalJson(next, live))) return next
  take()`,
    instead: `  take()
  if (options.dryRun || (!changed && equalJson(next, live))) return next`,
    tests: ['apiserver/api-server.test.ts', 'kube/contract/in-process.test.ts'],
  },
  'healing-leaves-readyz-faults': {
    broken: 'A step that heals leaves the faults of /readyz.',
    file: 'drill/conductor.ts',
    text: "'fault', 'own-etcd', 'readyz']",
    instead: "'fault', 'own-etcd']",
    tests: ['drill/conductor.test.ts'],
  },
  'undo-before-it-is-done': {
    broken: 'Undoes a termination after its time though it is not over yet.',
    file: 'drill/conductor.ts',
    text: 'await Promise.all([before, this.#fleet.sleep(step.forMs)])',
    instead: 'await this.#fleet.sleep(step.forMs)',
    tests: ['drill/conductor.test.ts'],
  },
  'no-pacing-while-pods-are-left-out': {
    broken: 'Writes the slices of a Service without pacing while one of its Pods has no known Node.',
    file: 'endpointslice/controller.ts',
    text: 'if (errors.length === leftOut.length) {',
    instead: 'if (errors.length === 0) {',
    tests: ['endpointslice/controller.test.ts', 'endpointslice/node-watch.test.ts'],
  },
  'updates-in-a-namespace-that-ends': {
    broken: 'Takes every refusal that names the end of a namespace for done, that of an update too.',
    file: 'endpointslice/slice-writer.ts',
    text: "if (first.action.type === 'create' && isNamespaceTerminating(first.error))",
    instead: 'if (isNamespaceTerminating(first.error))',
    tests: ['endpointslice/slice-writer.test.ts'],
  },
  'a-wait-without-history-ends': {
    broken: 'A wait for an object ends when the history that its watch needs is compacted.',
    file: 'apiserver/wait-for.ts',
    text: "if (type === 'ERROR') break",
    instead: "if (type === 'ERROR') return",
    tests: ['apiserver/http-api-server.test.ts'],
  },
  'keys-without-defaults': {
    broken: 'The keys of an applied item do not take the defaults of a custom resource.',
    file: 'apiserver/typed-fields.ts',
    text: "return member?.type === 'string' || member?.type === 'any' ? member.default : undefined",
    instead: "return member?.type === 'string' ? member.default : undefined",
    tests: ['apiserver/apply.test.ts'],
  },
  'empty-containers-stay': {
    broken: 'A container stays when the last of what is in it is given up.',
    file: 'apiserver/typed-fields.ts',
    text: 'const isNamed = isMember(node) || (declared && !isEmpty(named))',
    instead: 'const isNamed = isMember(node)',
    tests: ['apiserver/apply.test.ts'],
  },
  'last-applied-is-foreign': {
    broken: 'kubectl conflicts with what kubectl apply has applied.',
    file: 'apiserver/apply.ts',
    text: "manager.name === 'kubectl' ? lastAppliedFields(kind, live) : noFields",
    instead: 'noFields',
    tests: ['apiserver/apply.test.ts'],
  },
  'last-applied-stays': {
    broken: 'kubectl applies on the server, and the annotation does not follow.',
    file: 'apiserver/apply.ts',
    text: "draft: manager.name === 'kubectl' ? withLastApplied(draft, sent) : draft,",
    instead: 'draft,',
    tests: ['apiserver/apply.test.ts'],
  },
  'managers-of-nothing-stay': {
    broken: 'A manager that applies nothing stays among the owners.',
    file: 'apiserver/apply.ts',
    text: 'return isEmpty(applied) ? retained : [...retained, entry(kind, manager, subresource, applied, clock)]',
    instead: 'return [...retained, entry(kind, manager, subresource, applied, clock)]',
    tests: ['apiserver/apply.test.ts'],
  },
  'emptied-objects-are-stored': {
    broken: 'An object that was given up as a whole, but is applied empty, is not refused.',
    file: 'apiserver/apply.ts',
    text: 'if (kind.isCustom) refuseEmptied(kind, live, after)',
    instead: '',
    tests: ['apiserver/apply.test.ts'],
  },
  'headless-addresses-go': {
    broken: 'A headless Service loses its address when an update omits it.',
    file: 'apiserver/resources/services.ts',
    text: "const isAddressed = spec.type !== 'ExternalName' && old.type !== 'ExternalName'",
    instead: 'const isAddressed = needsClusterIp(spec) && needsClusterIp(old)',
    tests: ['apiserver/apply-services.test.ts'],
  },
}
