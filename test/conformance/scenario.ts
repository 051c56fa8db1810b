import { serviceRange } from '../peers/apiserver.ts'

/**
 * One request of a scenario. `NS` in its path and body stands for the scenario's own namespace, `LISTED` and `CONTINUE`
 * for the resourceVersion and the token of the last list.
 */
export interface Step {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  /** A body that is sent as it is. */
  readonly text?: string
  /** @default application/json */
  readonly contentType?: string
  /** @default application/json */
  readonly accept?: string
  /** The request is repeated until the answer has this status. */
  readonly untilStatus?: number
}

/** Requests that are sent to two servers, one after the other. The answers of both servers must be equal. */
export interface Scenario {
  readonly name: string
  readonly steps: readonly Step[]
}

/** The objects that the embedded server has from its start, as a real server has after its bootstrap. */
export const bootstrapped: readonly object[] = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
  {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: [serviceRange] },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kubernetes', namespace: 'default' },
    spec: { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, targetPort: 6443 }] },
  },
]

const core = '/api/v1/namespaces/NS'

/** The path of a collection in the scenario's namespace, of one object, or of its subresource. */
export function inNamespace(plural: string, ...rest: readonly string[]): string {
  const group = groups[plural]
  const root = group === undefined ? core : `/apis/${group}/v1/namespaces/NS`
  return [root, plural, ...rest].join('/')
}

const groups: Readonly<Record<string, string>> = {
  endpointslices: 'discovery.k8s.io',
  events: 'events.k8s.io',
  leases: 'coordination.k8s.io',
}

export const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const

export const asTable = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'

/** The Accept header of client-go's metadata client. */
export function asMetadata(kind: 'PartialObjectMetadata' | 'PartialObjectMetadataList', version = 'v1'): string {
  const form = `as=${kind};g=meta.k8s.io;v=${version}`
  return `application/json;${form},application/json`
}

export function get(path: string, accept?: string): Step {
  return { method: 'GET', path, ...(accept === undefined ? {} : { accept }) }
}

export function post(path: string, body: unknown): Step {
  return { method: 'POST', path, body }
}

export function put(path: string, body: unknown): Step {
  return { method: 'PUT', path, body }
}

export function patch(type: keyof typeof patchTypes, path: string, body: unknown): Step {
  return { method: 'PATCH', path, body, contentType: patchTypes[type] }
}

export function remove(path: string, body?: unknown): Step {
  return { method: 'DELETE', path, ...(body === undefined ? {} : { body }) }
}

export function service(name: string, spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, ...metadata },
    spec: { selector: { app: name }, ports: [{ name: 'web', port: 80 }], ...spec },
  }
}

export function configMap(name: string, data: object = { a: '1' }, metadata: object = {}): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata }, data }
}

export function pod(name: string, spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...metadata },
    spec: { containers: [{ name: 'main', image: 'registry.example/main:1' }], ...spec },
  }
}
