/**
 * The candidate that `word` was probably meant to be, or undefined. Case, dashes and underscores do not count; beyond that at most
 * a third of the letters may differ. The first of equally near candidates wins.
 */
export function didYouMean<Candidate extends string>(
  word: string,
  candidates: readonly Candidate[],
): Candidate | undefined {
  const plain = flatten(word)
  let best: Candidate | undefined
  let bestDistance = Math.floor(plain.length / 3) + 1
  for (const candidate of candidates) {
    const distance = editDistance(plain, flatten(candidate))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

function flatten(word: string): string {
  return word.replace(/[-_]/g, '').toLowerCase()
}

/** Levenshtein: insertions, deletions and replacements that turn one into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
