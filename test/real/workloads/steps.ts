import type { KubeObject } from '../../../src/kube/resources.ts'

/** What histories are made of. */
export type Plural = 'nodes' | 'pods' | 'services' | 'endpoints' | 'endpointslices'

/** The two controllers that make EndpointSlices, as they call themselves in `endpointslice.kubernetes.io/managed-by`. */
export const sliceManagers = {
  selected: 'endpointslice-controller.k8s.io',
  mirrored: 'endpointslicemirroring-controller.k8s.io',
} as const

export type SliceManager = keyof typeof sliceManagers

/** What is done by hand to a slice that a controller made. */
export type SliceDamage =
  | 'delete'
  | 'drop an endpoint'
  | 'add an endpoint'
  | 'turn conditions over'
  | 'move an endpoint to another node'
  | 'change ports'
  | 'add a label'
  | 'take labels off'
  | 'take the owner off'
  | 'duplicate'
  | 'take from its manager'
  | 'give back to its manager'
  | 'take from its Service'
  | 'give back to its Service'

/** Where an object is: the index of a namespace of the history, or nothing for a Node. */
export type Place = number | undefined

/** One thing that is done from outside to a cluster. Plain data: the namespaces are numbered, nothing has a uid yet. */
export type Step =
  | {
      readonly type: 'create'
      readonly plural: Plural
      readonly namespace?: Place
      readonly object: KubeObject
      /** Of the object that is named in it. */
      readonly subresource?: 'binding'
    }
  | {
      readonly type: 'patch'
      readonly plural: Plural
      readonly namespace?: Place
      readonly name: string
      readonly subresource?: 'status'
      /** A JSON merge patch. */
      readonly patch: unknown
      /** Something that a controller makes: it may not be there yet. */
      readonly mayMiss?: boolean
    }
  | {
      readonly type: 'delete'
      readonly plural: Plural
      readonly namespace?: Place
      readonly name: string
      readonly graceSeconds?: number
      readonly mayMiss?: boolean
    }
  /** Damage to one of the slices that a controller made for a Service, whichever are there. */
  | {
      readonly type: 'spoil'
      readonly namespace: number
      readonly service: string
      readonly manager: SliceManager
      readonly damage: SliceDamage
    }
  /** Time for the controllers to see what was done. */
  | { readonly type: 'pause'; readonly ms: number }
  /** Waits until the controllers have nothing more to do. */
  | { readonly type: 'quiet' }
  /** Deletes a namespace, which stays and terminates: no namespace controller runs. Nothing can be created in it from then on. */
  | { readonly type: 'terminate'; readonly namespace: number }
  | { readonly type: 'stop controllers' | 'start controllers' }

/** One line for a person, from which the step can be told apart. */
export function describeStep(step: Step): string {
  switch (step.type) {
    case 'create':
      return `create ${step.subresource === undefined ? '' : `${step.subresource} of `}${where(step.plural, step.namespace, step.object.metadata?.name)} ${JSON.stringify(step.object)}`
    case 'patch': {
      const path = where(step.plural, step.namespace, step.name)
      return `patch ${path}${step.subresource === undefined ? '' : ` ${step.subresource}`} ${JSON.stringify(step.patch)}`
    }
    case 'delete': {
      const grace = step.graceSeconds === undefined ? '' : ` with ${step.graceSeconds} s of grace`
      return `delete ${where(step.plural, step.namespace, step.name)}${grace}`
    }
    case 'spoil':
      return `${step.damage}: a ${step.manager} slice of ${where('services', step.namespace, step.service)}`
    case 'pause':
      return `pause ${step.ms} ms`
    case 'quiet':
      return 'wait until all is quiet'
    case 'terminate':
      return `terminate namespace ${'ab'[step.namespace]}`
    case 'stop controllers':
    case 'start controllers':
      return step.type
  }
}

function where(plural: Plural, namespace: Place, name: string | undefined): string {
  return namespace === undefined ? `${plural} ${name}` : `${plural} ${'ab'[namespace]}/${name}`
}
