import type {
  CoreV1Event,
  EventsV1Event,
  V1ConfigMap,
  V1CustomResourceDefinition,
  V1EndpointSlice,
  V1Endpoints,
  V1IPAddress,
  V1Lease,
  V1Namespace,
  V1Node,
  V1Pod,
  V1Secret,
  V1SelfSubjectAccessReview,
  V1Service,
  V1ServiceAccount,
  V1ServiceCIDR,
  V1SubjectAccessReview,
  V1TokenReview,
} from '@kubernetes/client-node/dist/gen/models/all.js'

export type Namespace = Json<V1Namespace>
export type Service = Json<V1Service>
export type Endpoints = Json<V1Endpoints>
export type EndpointSlice = Json<V1EndpointSlice>
export type ServiceCidr = Json<V1ServiceCIDR>
export type IpAddress = Json<V1IPAddress>
export type Lease = Json<V1Lease>
export type KubeEvent = Json<EventsV1Event>
export type ConfigMap = Json<V1ConfigMap>
export type Pod = Json<V1Pod>
export type Node = Json<V1Node>
export type TokenReview = Json<V1TokenReview>
export type SubjectAccessReview = Json<V1SubjectAccessReview>
export type CustomResourceDefinition = Json<V1CustomResourceDefinition>

/** The identity of a kind: where it is served, and the apiVersion and kind of its objects. */
export interface Resource<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  /** As in a path: lower case, plural. */
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  /** Never set; ties the object's type to the resource. */
  readonly object?: T
}

function resource<T extends KubeObject>(group: string, plural: string, kind: string, namespaced: boolean): Resource<T> {
  return { group, version: 'v1', plural, kind, namespaced }
}

export const namespaces: Resource<Namespace> = resource('', 'namespaces', 'Namespace', false)
export const services: Resource<Service> = resource('', 'services', 'Service', true)
export const endpoints: Resource<Endpoints> = resource('', 'endpoints', 'Endpoints', true)
export const configMaps: Resource<ConfigMap> = resource('', 'configmaps', 'ConfigMap', true)
export const pods: Resource<Pod> = resource('', 'pods', 'Pod', true)
export const nodes: Resource<Node> = resource('', 'nodes', 'Node', false)
export const endpointSlices = resource<EndpointSlice>('discovery.k8s.io', 'endpointslices', 'EndpointSlice', true)
export const serviceCidrs: Resource<ServiceCidr> = resource('networking.k8s.io', 'servicecidrs', 'ServiceCIDR', false)
export const ipAddresses: Resource<IpAddress> = resource('networking.k8s.io', 'ipaddresses', 'IPAddress', false)
export const leases: Resource<Lease> = resource('coordination.k8s.io', 'leases', 'Lease', true)
export const events: Resource<KubeEvent> = resource('events.k8s.io', 'events', 'Event', true)

/** The same Events as in `events`, as the core group serves them. */
export const coreEvents: Resource<Json<CoreV1Event>> = resource('', 'events', 'Event', true)
export const secrets: Resource<Json<V1Secret>> = resource('', 'secrets', 'Secret', true)
export const serviceAccounts: Resource<Json<V1ServiceAccount>> = resource('', 'serviceaccounts', 'ServiceAccount', true)

export const customResourceDefinitions: Resource<CustomResourceDefinition> = resource(
  'apiextensions.k8s.io',
  'customresourcedefinitions',
  'CustomResourceDefinition',
  false,
)

/** These reviews are answered and not stored. */
export const selfSubjectAccessReviews: Resource<Json<V1SelfSubjectAccessReview>> = resource(
  'authorization.k8s.io',
  'selfsubjectaccessreviews',
  'SelfSubjectAccessReview',
  false,
)
export const tokenReviews = resource<TokenReview>('authentication.k8s.io', 'tokenreviews', 'TokenReview', false)
export const subjectAccessReviews: Resource<SubjectAccessReview> = resource(
  'authorization.k8s.io',
  'subjectaccessreviews',
  'SubjectAccessReview',
  false,
)

/** `v1` or `group/v1`, as objects carry it. */
export function apiVersionOf(resource: Resource<KubeObject>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`
}

/** Adds a missing apiVersion and kind. API servers omit both in a list of built-in objects, but not in watch events. */
export function withKind<T extends KubeObject>(resource: Resource<T>, object: T): T {
  return object.kind === undefined ? { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object } : object
}

/** Such as `services` or `leases.coordination.k8s.io`. */
export function qualifiedPlural({ group, plural }: Resource<KubeObject>): string {
  return group === '' ? plural : `${plural}.${group}`
}

/** The path of a group and version. Their discovery document is at this path, and their collections are below it. */
export function groupVersionPath(resource: Resource<KubeObject>): string {
  return `${resource.group === '' ? '/api' : '/apis'}/${apiVersionOf(resource)}`
}

/** The path of a collection, of one object when `name` is given, or of its subresource. */
export function pathOf(
  resource: Resource<KubeObject>,
  target: {
    readonly namespace?: string | undefined
    readonly name?: string | undefined
    readonly subresource?: string | undefined
  } = {},
): string {
  const scope =
    resource.namespaced && target.namespace !== undefined ? `/namespaces/${encodeURIComponent(target.namespace)}` : ''
  const object = target.name === undefined ? '' : `/${encodeURIComponent(target.name)}`
  const subresource = target.subresource === undefined ? '' : `/${target.subresource}`
  return `${groupVersionPath(resource)}${scope}/${resource.plural}${object}${subresource}`
}

/**
 * A type of `@kubernetes/client-node` as it is on the wire: dates are RFC 3339 strings, everything is readonly. An
 * object may have fields that the type does not declare; copies and writes preserve them.
 */
export type Json<T> = 0 extends 1 & T
  ? unknown
  : T extends Date
    ? string
    : T extends readonly (infer Item)[]
      ? readonly Json<Item>[]
      : T extends object
        ? { readonly [Key in keyof T]: Json<T[Key]> }
        : T

export interface KubeObject {
  readonly apiVersion?: string | undefined
  readonly kind?: string | undefined
  readonly metadata?: ObjectMeta | undefined
}

/** The metadata that this program reads; other fields are preserved. */
export interface ObjectMeta {
  readonly name?: string | undefined
  readonly generateName?: string | undefined
  readonly namespace?: string | undefined
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
  readonly generation?: number | undefined
  readonly creationTimestamp?: string | undefined
  readonly deletionTimestamp?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  readonly finalizers?: readonly string[] | undefined
  readonly ownerReferences?: readonly unknown[] | undefined
  readonly managedFields?: readonly unknown[] | undefined
}

/** A watch continues from `resourceVersion`. `continue` is set while pages remain. */
export interface KubeList<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string | undefined }
  readonly items: readonly T[]
}

/**
 * Whether `a` is a later state of the same object than `b`, by their resourceVersions (KEP-5504: decimal numbers that
 * only grow). False if one is missing or not such a number.
 */
export function isNewer(a: KubeObject | undefined, b: KubeObject | undefined): boolean {
  const [later = '', earlier = ''] = [a?.metadata?.resourceVersion, b?.metadata?.resourceVersion]
  if (!/^[1-9]\d*$/.test(later) || !/^[1-9]\d*$/.test(earlier)) return false
  return later.length === earlier.length ? later > earlier : later.length > earlier.length
}

/** Whether an object is being deleted. Some servers write null if it is not. */
export function isBeingDeleted({ metadata }: KubeObject): boolean {
  return (metadata?.deletionTimestamp ?? undefined) !== undefined
}

/** Whether a decoded value is a JSON object. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export const isText = (value: unknown): boolean => typeof value === 'string'

export const isListOf = (isItem: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.every(isItem)

/** Go writes an empty time, list or map as null. */
export const isAbsentOr = (isValue: (value: unknown) => boolean) => (value: unknown) => value == null || isValue(value)
