import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../src/kubernetes-service/identity.ts'

/**
 * The case with `default/kubernetes` in place of `from`: in metadata, in the label of the slice and in the arguments of
 * the call.
 */
export function relocated<Case>(original: Case, from: { readonly namespace: string; readonly name: string }): Case {
  return JSON.parse(JSON.stringify(original), (key, value: unknown) => {
    if (key === 'namespace' && value === from.namespace) return KUBERNETES_SERVICE.namespace
    if (key === SERVICE_NAME_LABEL && value === from.name) return KUBERNETES_SERVICE.name
    if (key !== 'metadata' && key !== 'ref' && key !== 'call') return value
    const holder = value as { readonly name?: string }
    return holder.name === from.name ? { ...holder, name: KUBERNETES_SERVICE.name } : value
  }) as Case
}
