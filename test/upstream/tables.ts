import { readFileSync } from 'node:fs'
import type { ObjectRef } from '../../src/kube/api.ts'
import type { Endpoints, KubeObject, Service } from '../../src/kube/resources.ts'

/** A table of upstream's tests as data: see README.md in this folder. */
export interface Tables<TableName extends string, Case extends TableCase> {
  readonly module: string
  readonly version: string
  /** The file in the module that the cases come from. */
  readonly file: string
  readonly tables: Readonly<Record<TableName, readonly Case[]>>
}

export interface TableCase {
  /** Unique within its table. */
  readonly name: string
  readonly given: { readonly objects: readonly StoredObject[] }
  readonly call: object
  readonly expect: {
    /** All writes in their order, including those that the server refused. */
    readonly writes: readonly Write[]
    /** All objects afterwards, by kind, namespace and name. */
    readonly objects: readonly StoredObject[]
  }
}

/** An object with its identity filled in. */
export interface StoredObject extends KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: NonNullable<KubeObject['metadata']> & { readonly name: string }
}

export type Write =
  | { readonly verb: 'create' | 'update'; readonly resource: string; readonly object: StoredObject }
  | { readonly verb: 'delete'; readonly resource: string; readonly ref: ObjectRef }
  | {
      readonly verb: 'patch'
      readonly resource: string
      readonly subresource?: string
      readonly ref: ObjectRef
      /** As in `Patch`: `apply` is server-side apply. */
      readonly patchType: string
      readonly fieldManager?: string
      readonly force: boolean
      readonly body: StoredObject
    }

type EndpointPorts = NonNullable<NonNullable<Endpoints['subsets']>[number]['ports']>
type ServicePorts = NonNullable<NonNullable<Service['spec']>['ports']>

export interface KubernetesServiceCase extends TableCase {
  readonly call: {
    readonly serviceName: string
    readonly serviceIp: string
    readonly servicePorts: ServicePorts
    readonly serviceType: 'ClusterIP' | 'NodePort'
    readonly reconcile: boolean
  }
}

export interface LeaseReconcilerCase extends TableCase {
  readonly given: TableCase['given'] & {
    /** The addresses whose leases are live. */
    readonly leases: readonly string[]
  }
  readonly call: {
    readonly serviceName: string
    readonly ip: string
    readonly endpointPorts: EndpointPorts
    /** The calls, in this order. */
    readonly steps: readonly ('reconcile' | 'stop' | 'remove')[]
    /** For the step `reconcile`. */
    readonly reconcilePorts?: boolean
  }
  readonly expect: TableCase['expect'] & {
    readonly leases: readonly string[]
    /** Of the step `remove`: the address had no lease. */
    readonly error?: { readonly reason: 'LeaseNotFound' }
  }
}

export interface MasterCountReconcilerCase extends TableCase {
  readonly call: LeaseReconcilerCase['call'] & { readonly masterCount: number }
}

export interface EndpointsAdapterCase extends TableCase {
  readonly call: {
    readonly namespace: string
    /** Of the table `get`. */
    readonly name?: string
    /** Of the other tables. */
    readonly endpoints?: StoredObject
  }
  readonly expect: TableCase['expect'] & {
    readonly error?: { readonly code: number; readonly reason: string; readonly message: string }
    /** What the call returns; absent when it rejects or returns nothing. */
    readonly result?: StoredObject
  }
}

export interface SystemNamespacesCase extends TableCase {
  readonly call: { readonly namespaces: readonly string[] }
}

export interface DefaultServiceCidrCase extends TableCase {
  readonly call: { readonly cidrs: readonly string[] }
  readonly expect: TableCase['expect'] & {
    readonly events: readonly { readonly type: string; readonly reason: string; readonly note: string }[]
  }
}

export interface IpAddressRepairCase extends TableCase {
  readonly call: {
    /** The time at which upstream's code checks. */
    readonly now: string
    /** Of the table `runOnce`: how many creates are refused first, and with which status. */
    readonly refusals?: { readonly status: number; readonly times: number }
  }
  readonly expect: TableCase['expect'] & {
    readonly events: readonly {
      readonly type: string
      readonly reason: string
      readonly action: string
      readonly note: string
      readonly regarding: ObjectRef & { readonly kind: string }
    }[]
    /** Of the table `runOnce`: the number of creates, and the error with which the call ends. */
    readonly creates?: number
    readonly error?: string
  }
}

export const kubernetesService =
  load<Tables<'create' | 'reconcile' | 'nonReconcile', KubernetesServiceCase>>('kubernetes-service')
export const systemNamespaces = load<Tables<'sync', SystemNamespacesCase>>('system-namespaces')
export const defaultServiceCidr = load<Tables<'sync' | 'conversions', DefaultServiceCidrCase>>('default-service-cidr')
export const endpointsAdapter =
  load<Tables<'get' | 'create' | 'update' | 'ensure', EndpointsAdapterCase>>('endpoints-adapter')
export const leaseReconciler =
  load<Tables<'reconcile' | 'nonReconcile' | 'remove' | 'shutdown', LeaseReconcilerCase>>('lease-reconciler')
export const masterCountReconciler =
  load<Tables<'reconcile' | 'nonReconcile' | 'remove', MasterCountReconcilerCase>>('master-count-reconciler')
export const ipAddressRepair =
  load<Tables<'repairServiceIP' | 'syncIPAddress' | 'runOnce', IpAddressRepairCase>>('ip-address-repair')

function load<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8')) as T
}
