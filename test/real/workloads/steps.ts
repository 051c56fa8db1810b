import type { KubeObject } from '../../../src/kube/resources.ts'

/** The kinds of objects in histories. */
export type Plural = 'nodes' | 'pods' | 'services' | 'endpoints' | 'endpointslices'

/** The two controllers that make EndpointSlices, by their names in `endpointslice.kubernetes.io/managed-by`. */
export const sliceManagers = {
  selected: 'endpointslice-controller.k8s.io',
  mirrored: 'endpointslicemirroring-controller.k8s.io',
} as const

export type SliceManager = keyof typeof sliceManagers

/** A change by hand of a slice that a controller made. */
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

/** Where an object is: the index of a namespace of the history, or undefined for a Node. */
export type Place = number | undefined

/** One action on a cluster from outside. Plain data: the namespaces are numbers, and no object has a uid yet. */
export type Step =
  | {
      readonly type: 'create'
      readonly plural: Plural
      readonly namespace?: Place
      readonly object: KubeObject
      /** A subresource of the object that is named in `object`. */
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
      /** A controller makes the object, so it may not exist yet. */
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
  /** Damages one of the slices that a controller made for a Service, whichever exist. */
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
  /**
   * Deletes a namespace, which stays and terminates, because no namespace controller runs. From then on nothing can be
   * created in it.
   */
  | { readonly type: 'terminate'; readonly namespace: number }
  | { readonly type: 'stop controllers' | 'start controllers' }

/** One line for people, which distinguishes the step from others. */
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
