/** The master that takes the place of another. */
export function successorName(name: string): string {
  return `${name}-anew`
}
