/** Objects that differ only by a number: upstream's tests create Pods and endpoints by the hundred. */
export interface Numbered<T> {
  /** Such as `0-2,4`. */
  readonly numbers: string
  /** `pod{n}` and `{ip}` stand for the name and the address of the number. */
  readonly template: T
}

/**
 * The numbered objects. Upstream's addresses beyond 1.2.3.255 are invalid; here they continue in 1.2.4.0/24, in the
 * data too.
 */
export function expand<T>(groups: readonly Numbered<T>[]): readonly T[] {
  return groups.flatMap(({ numbers, template }) => {
    const text = JSON.stringify(template)
    return numbersOf(numbers).map((number) => {
      const last = 4 + number
      const address = `1.2.${3 + Math.floor(last / 256)}.${last % 256}`
      return JSON.parse(text.replaceAll('pod{n}', `pod${number}`).replaceAll('{ip}', address)) as T
    })
  })
}

function numbersOf(text: string): readonly number[] {
  return text.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}
