/** The master that takes the place of another. */
export function successorName(name: string): string {
  return `${name}-anew`
}

/** Whether whoever comes in the place of `name`, or of its successors, is called so. */
export function isSuccessorName(candidate: string, name: string): boolean {
  return candidate.startsWith(name) && /^(?:-anew)+$/.test(candidate.slice(name.length))
}

/** Whether somebody who comes during a drill may be called so, by `replace` or `scale`. */
export function mayComeLater(name: string): boolean {
  return /-anew$|^master-\d+$/.test(name)
}
