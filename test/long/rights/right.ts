import { readFileSync } from 'node:fs'
import type { ApiClient } from '../../peers/api-client.ts'

/** One verb on one resource or on one path. If the rule has names, it is for one name. */
export interface Right {
  /** The role that grants it. */
  readonly role: string
  /** Undefined: in the whole cluster. */
  readonly namespace: string | undefined
  readonly verb: string
  readonly group?: string
  /** Including its subresource. */
  readonly resource?: string
  readonly name?: string
  readonly path?: string
}

/** A request that the server allowed. */
export interface AuditedRequest {
  readonly verb: string
  readonly group: string
  readonly resource: string | undefined
  readonly namespace: string | undefined
  readonly name: string | undefined
  readonly path: string
}

interface PolicyRule {
  readonly apiGroups?: readonly string[]
  readonly resources?: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly nonResourceURLs?: readonly string[]
  readonly verbs: readonly string[]
}

interface StoredRole {
  readonly kind: 'Role' | 'ClusterRole'
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules: readonly PolicyRule[]
}

/** The path of a role of this program, and each right that it grants. */
export interface GrantedRole {
  readonly path: string
  readonly rights: readonly Right[]
}

const rbac = '/apis/rbac.authorization.k8s.io/v1'

/** All roles that are bound to the user `apiserver-bootstrap`, as the applied manifests define them. */
export async function grantedRoles(api: ApiClient): Promise<readonly GrantedRole[]> {
  const stored: StoredRole[] = []
  for (const kind of ['ClusterRole', 'Role'] as const) {
    const bindings = await api.get<{
      readonly items: readonly {
        readonly metadata: { readonly namespace?: string }
        readonly roleRef: { readonly name: string }
        readonly subjects?: readonly { readonly name: string }[]
      }[]
    }>(`${rbac}/${kind.toLowerCase()}bindings`)
    for (const { metadata, roleRef, subjects } of bindings.items) {
      if (!subjects?.some(({ name }) => name === 'apiserver-bootstrap')) continue
      stored.push({ ...(await api.get<StoredRole>(pathOf(kind, roleRef.name, metadata.namespace))), kind })
    }
  }
  return stored.map(({ kind, metadata: { name, namespace }, rules }) => ({
    path: pathOf(kind, name, namespace),
    rights: rules.flatMap((rule) => rightsOf(rule, { role: `${kind} ${name}`, namespace })),
  }))
}

function pathOf(kind: StoredRole['kind'], name: string, namespace: string | undefined): string {
  return `${rbac}/${namespace === undefined ? '' : `namespaces/${namespace}/`}${kind.toLowerCase()}s/${name}`
}

function rightsOf(rule: PolicyRule, where: Pick<Right, 'role' | 'namespace'>): readonly Right[] {
  const { verbs, apiGroups = [], resources = [], resourceNames = [undefined], nonResourceURLs = [] } = rule
  return verbs.flatMap((verb) => [
    ...nonResourceURLs.map((path) => ({ ...where, verb, path })),
    ...apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        resourceNames.map((name) => ({ ...where, verb, group, resource, ...(name !== undefined && { name }) })),
      ),
    ),
  ])
}

/** Makes a role grant exactly these rights. */
export async function grant(api: ApiClient, { path, rights }: GrantedRole): Promise<void> {
  const rules = rights.map(({ verb, group, resource, name, path: url }): PolicyRule => {
    if (url !== undefined) return { verbs: [verb], nonResourceURLs: [url] }
    const names = name === undefined ? {} : { resourceNames: [name] }
    return { verbs: [verb], apiGroups: [group ?? ''], resources: [resource ?? ''], ...names }
  })
  await api.merge(path, { rules })
}

export function permits(right: Right, request: AuditedRequest): boolean {
  if (right.verb !== request.verb) return false
  if (right.path !== undefined) return request.resource === undefined && right.path === request.path
  return (
    right.group === request.group &&
    right.resource === request.resource &&
    (right.namespace === undefined || right.namespace === request.namespace) &&
    (right.name === undefined || right.name === request.name)
  )
}

export function describe({ role, namespace, verb, resource, name, path }: Right): string {
  const where = namespace === undefined ? role : `${role} in ${namespace}`
  return `${where}: ${verb} ${path ?? resource}${name === undefined ? '' : ` ${name}`}`
}

/**
 * The requests that the user `apiserver-bootstrap` was allowed after the first `since` bytes of the log, in their
 * order.
 */
export function auditedRequests(log: string, since = 0): readonly AuditedRequest[] {
  const lines = readFileSync(log).subarray(since).toString().split('\n').filter(Boolean)
  return lines.flatMap((line) => {
    const event = JSON.parse(line)
    if (event.impersonatedUser?.username !== 'apiserver-bootstrap') return []
    if (event.annotations?.['authorization.k8s.io/decision'] !== 'allow') return []
    const { resource, subresource, namespace, name, apiGroup: group = '' } = event.objectRef ?? {}
    const path = new URL(event.requestURI, 'https://server').pathname
    const full = subresource === undefined ? resource : `${resource}/${subresource}`
    return [{ verb: event.verb, group, resource: full, namespace, name, path }]
  })
}
