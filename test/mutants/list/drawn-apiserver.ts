// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources have templates
import type { TestedMutant } from '../mutant.ts'

/** Drawn by seed. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'apiserver-store-guard': {
    broken: 'changesAfter: drops: if (revision < this.#compacted).',
    file: 'apiserver/store.ts',
    text: '    if (revision < this.#compacted) throw new Compacted(this.#compacted)\n',
    instead: '',
    tests: ['apiserver/store.test.ts'],
  },
  'apiserver-store-method': {
    broken: 'upTo: calls max for Math.min.',
    file: 'apiserver/store.ts',
    text: 'const upTo = Math.min(revision, this.#currentRevision())',
    instead: 'const upTo = Math.max(revision, this.#currentRevision())',
    tests: ['apiserver/store.test.ts'],
  },
  'apiserver-resources-config-maps-negation': {
    broken: 'validate: drops the "not" of !/^[-._a-zA-Z0-9]{1,253}$/.test(key).',
    file: 'apiserver/resources/plain-kinds.ts',
    text: 'if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key)) {',
    instead: 'if (/^[-._a-zA-Z0-9]{1,253}$/.test(key)) {',
    tests: ['apiserver/resources/plain-kinds.test.ts'],
  },
  'apiserver-api-server-operator': {
    broken: 'answer: has !== for === after method.',
    file: 'apiserver/api-server.ts',
    text: "if (reads && (path === '/readyz' || path === '/livez' || path === '/healthz'))",
    instead: "if (!reads && (path === '/readyz' || path === '/livez' || path === '/healthz'))",
    tests: ['apiserver/api-server.test.ts'],
  },
  'apiserver-watch-negation': {
    broken: 'eventOf: drops the "not" of !before.',
    file: 'apiserver/watch.ts',
    text: 'if (!before) return undefined',
    instead: 'if (before) return undefined',
    tests: ['commands/embedded.test.ts'],
  },
  'apiserver-refusal-operator': {
    broken: 'qualifiedKind: has !== for === after resource.group.',
    file: 'apiserver/refusal.ts',
    text: "return resource.group === '' ? resource.kind : `${resource.kind}.${resource.group}`",
    instead: "return resource.group !== '' ? resource.kind : `${resource.kind}.${resource.group}`",
    tests: ['apiserver/refusal.test.ts'],
  },
  'apiserver-field-set-number': {
    broken: 'keys: has 3 for 2.',
    file: 'apiserver/field-set.ts',
    text: 'const keys = Object.entries(JSON.parse(step.slice(2)) as Readonly<Record<string, unknown>>)',
    instead: 'const keys = Object.entries(JSON.parse(step.slice(3)) as Readonly<Record<string, unknown>>)',
    tests: ['apiserver/managed-fields.test.ts'],
  },
  'apiserver-patches-number': {
    broken: 'patchTypeOf: has 1 for 0.',
    file: 'apiserver/patches.ts',
    text: "switch (contentType.split(';')[0]?.trim()) {",
    instead: "switch (contentType.split(';')[1]?.trim()) {",
    tests: ['bootstrap/workloads.test.ts'],
  },
  'apiserver-writes-number': {
    broken: 'completed: has 1 for 0.',
    file: 'apiserver/writes.ts',
    text: 'const managed = managers.length === 0 ? {}',
    instead: 'const managed = managers.length === 1 ? {}',
    tests: ['kube/contract/in-process.test.ts'],
  },
  'apiserver-discovery-operator': {
    broken: 'served: has !== for === after apiVersionOf(kind.resource).',
    file: 'apiserver/discovery.ts',
    text: 'const served = kinds.filter((kind) => apiVersionOf(kind.resource) === groupVersion)',
    instead: 'const served = kinds.filter((kind) => apiVersionOf(kind.resource) !== groupVersion)',
    tests: ['apiserver/api-server.test.ts'],
  },
  'apiserver-ip-text-flag': {
    broken: 'isLinkLocalMulticast: says true for false.',
    file: 'apiserver/names.ts',
    text: 'if (!isMulticast(address)) return false',
    instead: 'if (!isMulticast(address)) return true',
    tests: ['bootstrap/workloads.test.ts'],
  },
  'apiserver-resources-endpoints-method': {
    broken: 'withProtocols: calls some for ports.every.',
    file: 'apiserver/resources/endpoints.ts',
    text: 'if (ports.every((port) => port.protocol !== undefined)) return subset',
    instead: 'if (ports.some((port) => port.protocol !== undefined)) return subset',
    tests: ['kube/contract/in-process.test.ts'],
  },
  'apiserver-writes-flag-2': {
    broken: 'updateObject: says false for true.',
    file: 'apiserver/writes.ts',
    text: 'if (version === undefined && options.guarded === true && kind.guardedUpdate === true) throw unguarded(kind, name)',
    instead:
      'if (version === undefined && options.guarded === false && kind.guardedUpdate === true) throw unguarded(kind, name)',
    tests: ['kube/contract/in-process.test.ts'],
  },
  'apiserver-faults-number': {
    broken: 'index: has 1 for 0.',
    file: 'apiserver/faults.ts',
    text: 'for (let index = 0; ; index++) {',
    instead: 'for (let index = 1; ; index++) {',
    tests: ['apiserver/faults.test.ts'],
  },
  'apiserver-label-selector-statement': {
    broken: 'tokensOf: does not do: tokenPattern.lastIndex = 0.',
    file: 'apiserver/selectors.ts',
    text: '  tokenPattern.lastIndex = 0\n',
    instead: '',
    tests: ['bootstrap/workloads.test.ts'],
  },
  'apiserver-resources-services-method': {
    broken: 'withoutOtherTypesFields: calls some for [...portsOf(spec)].every.',
    file: 'apiserver/resources/services.ts',
    text: 'if (needsNodePorts(old) && !needsNodePorts(spec) && [...portsOf(spec)].every((port) => oldPorts.has(port))) {',
    instead:
      'if (needsNodePorts(old) && !needsNodePorts(spec) && [...portsOf(spec)].some((port) => oldPorts.has(port))) {',
    tests: ['apiserver/resources/services.test.ts'],
  },
  'apiserver-resources-services-method-2': {
    broken: 'twinFree: calls every for given.some.',
    file: 'apiserver/resources/services.ts',
    text: 'twin !== undefined && !given.some((other) => other.nodePort === twin && other.protocol === port.protocol)',
    instead:
      'twin !== undefined && !given.every((other) => other.nodePort === twin && other.protocol === port.protocol)',
    tests: ['apiserver/resources/services.test.ts'],
  },
  'apiserver-refusal-operator-2': {
    broken: 'isOfResource:: has !== for === after object.apiVersion.',
    file: 'apiserver/refusal.ts',
    text: '(object.apiVersion === undefined || object.apiVersion === apiVersionOf(resource))',
    instead: '(object.apiVersion !== undefined || object.apiVersion === apiVersionOf(resource))',
    tests: ['apiserver/api-server.test.ts'],
  },
}
