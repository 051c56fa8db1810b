/** How two collections of lines differ, in any order: lines that are missing, unexpected, or there too often. */
export function lineFaults(what: string, found: readonly string[], expected: readonly string[]): readonly string[] {
  const foundCounts = countsOf(found)
  const expectedCounts = countsOf(expected)
  const faults: string[] = []
  for (const [line, count] of expectedCounts) {
    const there = foundCounts.get(line) ?? 0
    if (there < count) faults.push(`${what} lack ${line}`)
    else if (there > count) faults.push(`${what} have ${there} times ${line}`)
  }
  for (const line of foundCounts.keys()) if (!expectedCounts.has(line)) faults.push(`${what} should not have ${line}`)
  return faults
}

function countsOf(lines: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1)
  return counts
}

/** How labels differ from what they must be. */
export function labelFaults(
  what: string,
  found: Readonly<Record<string, string>>,
  expected: Readonly<Record<string, string>>,
): readonly string[] {
  const text = (labels: Readonly<Record<string, string>>): string =>
    JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)))
  return text(found) === text(expected) ? [] : [`${what} has the labels ${text(found)}, not ${text(expected)}`]
}
