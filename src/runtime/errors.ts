/**
 * What a failed call to a server means for its caller.
 * - `conflict`: what the call relied on has changed or is gone, for example because another client wrote first; read
 *   again at once.
 * - `away`: the server does not answer, or fails; retry soon, as long as it takes.
 * - `passing`: the server refuses because of a state that often ends a moment later; retry soon.
 * - `lasting`: the server refuses until somebody changes the configuration; retry now and then.
 */
export type FailureNature = 'conflict' | 'away' | 'passing' | 'lasting'

/**
 * A failed call to a server of any kind. The message contains no credentials and no contents of objects. A custom lease
 * store throws its own subclass, so that the program can decide what to do.
 */
export abstract class RemoteError extends Error {
  /** A stable code. docs/errors.md lists the codes of this program's own classes. */
  abstract readonly code: string
  abstract readonly nature: FailureNature
}

/** The message of a thrown value: an Error's own message, anything else as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** Characters that control a terminal, are invisible, or reorder the text around them. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/**
 * Foreign text as one line that a terminal shows literally: control characters (line breaks and tabs included), changes
 * of writing direction, zero-width characters and lone surrogates become escapes as in JSON, such as `\u001b`. Compact
 * JSON stays the same JSON.
 */
export function printable(text: string): string {
  return text.replace(unprintable, escaped)
}

/** As {@link printable}, but for text of several lines: line breaks are preserved. */
export function printableLines(text: string): string {
  return text.replace(unprintable, (character) => (character === '\n' ? character : escaped(character)))
}

function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
