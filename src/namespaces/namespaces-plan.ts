/** The namespaces that a cluster cannot do without, in upstream's order (pkg/controlplane, `SystemNamespaces`). */
export const SYSTEM_NAMESPACES: readonly string[] = ['kube-system', 'kube-public', 'default', 'kube-node-lease']

/**
 * The namespaces that must be made: those wanted that do not exist. Pure.
 * One that is being deleted still exists; it is made again when it has gone.
 */
export function planNamespaces(wanted: readonly string[], present: (name: string) => boolean): readonly string[] {
  return wanted.filter((name) => !present(name))
}
