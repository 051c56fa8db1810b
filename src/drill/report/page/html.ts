/** Markup that may stand on the page as it is. Only {@link html} and {@link markup} make it. */
export class Html {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  toString(): string {
    return this.#text
  }
}

export type Part = string | number | Html | undefined | readonly Part[]

/**
 * Markup from a template. Whatever is put into it is text, of an element or of a quoted attribute, and is escaped; markup stays markup,
 * lists are joined, and undefined is nothing.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.map((string, index) => string + render(parts[index])).join(''))
}

/** What was written here, not read from anywhere. */
export function markup(text: string): Html {
  return new Html(text)
}

/**
 * Text as it may stand in an element or a quoted attribute. Characters that are no text (control characters, halves of pairs) or that
 * turn the direction of what follows become U+FFFD, so that nothing from outside changes what stands around it.
 */
export function escapeHtml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(notText, '\uFFFD')
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const notText = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g

function render(part: Part): string {
  if (part === undefined) return ''
  if (part instanceof Html) return part.toString()
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part))
  return part.map(render).join('')
}
