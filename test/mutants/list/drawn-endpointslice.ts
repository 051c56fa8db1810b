// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources have templates
import type { TestedMutant } from '../mutant.ts'

/** Drawn by seed. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'endpointslice-slice-tracker-guard': {
    broken: 'unseen: drops: if (!isSeen).',
    file: 'endpointslice/slice-tracker.ts',
    text: 'if (!isSeen) yield [slice, written, uid]',
    instead: 'yield [slice, written, uid]',
    tests: ['upstream/endpointslice-controller.test.ts'],
  },
  'endpointslice-options-number': {
    broken: 'endpointSliceOptions: has 2 for 1.',
    file: 'endpointslice/options.ts',
    text: 'mirroringMaxEndpointsPerSubset: {\n      schema: wholeNumber(1, 1000),',
    instead: 'mirroringMaxEndpointsPerSubset: {\n      schema: wholeNumber(2, 1000),',
    tests: ['config/generated.test.ts'],
  },
  'endpointslice-slices-plan-statement': {
    broken: 'planAddressType: does not do: create.push(...plan.create).',
    file: 'endpointslice/slices-plan.ts',
    text: '    create.push(...plan.create)\n',
    instead: '',
    tests: ['endpointslice/slices-plan.test.ts'],
  },
  'endpointslice-topology-endpoint-hints-guard': {
    broken: 'summarize: drops: if (zones.length === 0).',
    file: 'endpointslice/topology/topology-cache.ts',
    text: '    if (zones.length === 0) complete = false\n',
    instead: '',
    tests: ['upstream/topology.test.ts'],
  },
  'endpointslice-mirroring-mirrored-endpoints-flag': {
    broken: 'mirroredEndpoints: says true for false.',
    file: 'endpointslice/mirroring/mirrored-endpoints.ts',
    text: 'mirror(notReadyAddresses, false)',
    instead: 'mirror(notReadyAddresses, true)',
    tests: ['upstream/mirroring.test.ts'],
  },
  'endpointslice-pod-endpoint-flag': {
    broken: 'yesOrNo: says true for false.',
    file: 'endpointslice/endpoint.ts',
    text: 'const yesOrNo = [false, true] as const',
    instead: 'const yesOrNo = [true, true] as const',
    tests: ['upstream/endpointslice-utils.test.ts'],
  },
  'endpointslice-controller-negation': {
    broken: '#syncService: drops the "not" of !selectsPods(service).',
    file: 'endpointslice/controller.ts',
    text: 'if (service === undefined || !selectsPods(service)) {',
    instead: 'if (service === undefined || selectsPods(service)) {',
    tests: ['endpointslice/controller.test.ts'],
  },
  'endpointslice-topology-cpu-quantity-branch': {
    broken: 'divideUp: always takes the second of dividend > 0n && quotient * divisor !== dividend ? quotient .',
    file: 'endpointslice/topology/allocations.ts',
    text: 'return dividend > 0n && quotient * divisor !== dividend ? quotient + 1n : quotient',
    instead: 'return quotient',
    tests: ['endpointslice/topology/allocations.test.ts'],
  },
  'endpointslice-slices-plan-operator': {
    broken: 'planAddressType: has !== for === after remove.length.',
    file: 'endpointslice/slices-plan.ts',
    text: 'if (remove.length === 1 && only !== undefined && isOwnedBy(only, service) && isPlaceholder(only, labels))',
    instead:
      'if (remove.length !== 1 && only !== undefined && isOwnedBy(only, service) && isPlaceholder(only, labels))',
    tests: ['endpointslice/slices-plan.property.test.ts'],
  },
  'endpointslice-mirroring-mirror-plan-flag': {
    broken: 'mayBeMirrored: says true for false.',
    file: 'endpointslice/mirroring/mirror-plan.ts',
    text: "if (endpoints?.metadata?.labels?.[skipMirrorLabel] === 'true') return false",
    instead: "if (endpoints?.metadata?.labels?.[skipMirrorLabel] === 'true') return true",
    tests: ['endpointslice/mirroring/mirror-plan.test.ts'],
  },
  'endpointslice-slice-metrics-method': {
    broken: 'planned: calls min for Math.max.',
    file: 'endpointslice/slice-metrics.ts',
    text: 'desiredSlices: Math.max(',
    instead: 'desiredSlices: Math.min(',
    tests: ['upstream/endpointslice-metrics.test.ts'],
  },
  'endpointslice-pod-endpoint-operator': {
    broken: 'conditionsOf: has - for + after Number(ready) * 4.',
    file: 'endpointslice/endpoint.ts',
    text: 'return conditions[Number(ready) * 4 + Number(serving) * 2 + Number(terminating)] as EndpointConditions',
    instead: 'return conditions[Number(ready) * 4 - Number(serving) * 2 + Number(terminating)] as EndpointConditions',
    tests: ['upstream/endpointslice-utils.test.ts'],
  },
  'endpointslice-slice-writer-guard': {
    broken: 'deleteUnwanted: drops: if (signal.aborted).',
    file: 'endpointslice/slice-writer.ts',
    text: '      if (signal.aborted) throw error\n',
    instead: '',
    tests: ['endpointslice/slice-writer.test.ts'],
  },
  'endpointslice-orphaned-slices-number': {
    broken: 'collect: has 1 for 0.',
    file: 'endpointslice/orphaned-slices.ts',
    text: 'if (plan.orphanedAtMs.size === 0) this.#orphanedAtMs.delete(serviceKey)',
    instead: 'if (plan.orphanedAtMs.size === 1) this.#orphanedAtMs.delete(serviceKey)',
    tests: ['endpointslice/orphaned-slices.test.ts'],
  },
  'endpointslice-mirroring-mirror-plan-number': {
    broken: 'planMirror:: has 1 for 0.',
    file: 'endpointslice/mirroring/mirror-plan.ts',
    text: 'tally.groups.push({ endpoints: count, slices: count === 0 ? 0 : 1 })',
    instead: 'tally.groups.push({ endpoints: count, slices: count === 0 ? 1 : 1 })',
    tests: ['upstream/mirroring.test.ts'],
  },
}
