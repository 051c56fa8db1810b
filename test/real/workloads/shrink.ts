/**
 * A smallest part of the items, in their order, for which `fails` is still true: none of the remaining items can be
 * removed alone, unless `deadline` (in milliseconds of `now`) came first. `fails` must be true for all items together.
 */
export async function shrink<T>(
  items: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
  { deadline, now }: { readonly deadline: number; readonly now: () => number },
): Promise<readonly T[]> {
  let left = items
  let size = Math.ceil(left.length / 2)
  while (size >= 1) {
    let shrunk = false
    for (let from = 0; from < left.length; ) {
      if (now() > deadline) return left
      const without = [...left.slice(0, from), ...left.slice(from + size)]
      if (without.length > 0 && (await fails(without))) {
        left = without
        shrunk = true
      } else {
        from += size
      }
    }
    if (size === 1 && !shrunk) break
    size = size === 1 ? 1 : Math.ceil(size / 2)
  }
  return left
}
