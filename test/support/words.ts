/** Private words, and those of the field that say the same. */
export const banned: Readonly<Record<string, string>> = {
  'look|looks|looked|looking': 'reconcile, read, check',
  'tell|tells|told|telling|news|said': 'report, log, record, state',
  company: 'co-holder',
  'doubt|doubts|doubtful|doubted': 'suspected expiry',
  wishes: 'desired state',
  kept: 'managed, preserved, stored',
  'hasten|hastens|hastened': 'expedite',
  heard: 'received',
  whereabouts: 'location',
  ripe: 'due',
  well: 'healthy, recovered',
  ways: 'paths, connections',
  'to be had': 'available',
}

/** Words that the code used before, and the documents never did. */
const bannedInCode: Readonly<Record<string, string>> = {
  ...banned,
  'mend|mends|mended|mending': 'correct, repair',
  'stray|strays': 'unknown, unassigned',
  'unheard|unwell|unripe|untold|unsaid': 'unseen, unhealthy, not due',
}

/** The longest line of a comment: the formatter's, which leaves comments alone. */
const COMMENT_WIDTH = 120

/**
 * Banned words in a source file, in names, comments and messages alike: `hasTold` has the word `told`. `names` are
 * texts of others, which may contain such words.
 */
export function bannedWords(path: string, text: string, names: readonly string[] = []): readonly string[] {
  return text.split('\n').flatMap((line, index) => {
    const own = names.reduce((rest, name) => rest.replaceAll(name, ''), line)
    const words = own.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/[_-]/g, ' ')
    return Object.entries(bannedInCode).flatMap(([pattern, instead]) => {
      const [word] = new RegExp(`\\b(?:${pattern})\\b`, 'i').exec(words) ?? []
      return word === undefined ? [] : [`${path}:${index + 1}: ${word} (instead: ${instead})`]
    })
  })
}

/** The text with each line emptied that is not a comment. Keeps the numbers of the lines. */
function onlyComments(text: string): string {
  return text.replaceAll(/^(?!\s*(?:\/\/|\/\*\*|\* )).*$/gm, '')
}

/** Lines of comments that are longer than the formatter's width. */
export function longComments(path: string, text: string): readonly string[] {
  return onlyComments(text)
    .split('\n')
    .flatMap((line, index) => {
      const isLong = line.length > COMMENT_WIDTH && !/biome-ignore|https?:\/\//.test(line)
      return isLong ? [`${path}:${index + 1}: ${line.length} characters`] : []
    })
}
