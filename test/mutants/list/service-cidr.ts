import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'service-cidrs-cover-each-other': {
    broken: 'Lets two ServiceCIDRs that are deleted together rely on one another, so that both go.',
    file: 'service-cidr/protection/coverage.ts',
    text: ': began > ownBegan',
    instead: ': true',
    tests: ['service-cidr/protection/coverage.test.ts', 'service-cidr/protection/blocking-addresses.property.test.ts'],
  },
  'service-cidr-covered-in-one-family': {
    broken: 'Takes a ServiceCIDR of two families for covered when another has the addresses of one of them.',
    file: 'service-cidr/protection/coverage.ts',
    text: 'ranges.every((own)',
    instead: 'ranges.some((own)',
    tests: ['service-cidr/protection/coverage.test.ts'],
  },
  'blocking-addresses-of-the-first-reading': {
    broken: 'Does not read the IPAddresses again when the ServiceCIDRs change on which a deleted one relies.',
    file: 'service-cidr/protection/blocking-addresses.ts',
    text: 'if (entry?.madeOf === madeOf)',
    instead: 'if (entry !== undefined)',
    tests: ['service-cidr/protection/controller.test.ts'],
  },
  'service-cidr-goes-before-the-lists-are-there': {
    broken: 'Removes finalizers before all IPAddresses are known.',
    file: 'service-cidr/protection/controller.ts',
    text: '      await this.#options.informers.whenSynced(signal)\n',
    instead: '',
    tests: ['service-cidr/protection/controller.test.ts'],
  },
  'service-cidr-finalizers-unguarded': {
    broken: 'Writes the finalizers of an old copy over those that another writer has set since.',
    file: 'service-cidr/protection/controller.ts',
    text: '{ metadata: { resourceVersion, finalizers: action.finalizers } }',
    instead: '{ metadata: { finalizers: action.finalizers } }',
    tests: ['service-cidr/protection/controller.test.ts'],
  },
  'service-cidr-follows-pods': {
    broken: 'Follows all Pods and Services for the controller of ServiceCIDRs alone.',
    file: 'bootstrap/workload-parts.ts',
    text: "return name === 'endpoints' || name === 'endpointslice'",
    instead: 'return true',
    tests: ['bootstrap/workloads.test.ts'],
  },
  'no-live-read-before-a-report': {
    broken: 'The default ServiceCIDR is written and reported as the watch has it, however late that is.',
    file: 'service-cidr/controller.ts',
    text: "const live = planned.type === 'create' ? undefined : await ifFound(api.get(serviceCidrs, ref, { signal }))",
    instead: 'const live = cached',
    tests: ['service-cidr/controller.test.ts'],
  },
  'created-for-ever': {
    broken: 'A default ServiceCIDR whose creation the watch missed is created again and again, and never Ready.',
    file: 'service-cidr/controller.ts',
    text: '        this.#informer.restart()\n',
    instead: '',
    tests: ['service-cidr/controller.test.ts'],
  },
  'never-settled-without-the-api': {
    broken: 'Beside a server without ServiceCIDRs the duty never settles.',
    file: 'service-cidr/controller.ts',
    text: '      this.#absent.resolve()\n',
    instead: '',
    tests: ['service-cidr/controller.test.ts'],
  },
  'only-the-first-page-blocks': {
    broken: 'Removes the finalizer of a ServiceCIDR though an IPAddress on the second page of the list needs it.',
    file: 'service-cidr/protection/controller.ts',
    text: 'if (ipAddress === undefined) continue',
    instead: 'if (ipAddress === undefined) return false',
    tests: ['service-cidr/protection/controller.test.ts'],
  },
}
