/** What a terminal obeys, hides, or lets change the place of what stands beside it. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/**
 * Text from outside as one line that a terminal shows as it is: control characters of both sets with line breaks and tabs, turns of the direction of
 * writing, what has no width and halves of pairs become escapes as in JSON, such as `\u001b`. So what is valid JSON stays the same JSON.
 */
export function printable(text: string): string {
  return text.replace(unprintable, escaped)
}

/** The same for text of several lines, whose line breaks stay. */
export function printableLines(text: string): string {
  return text.replace(unprintable, (character) => (character === '\n' ? character : escaped(character)))
}

function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
