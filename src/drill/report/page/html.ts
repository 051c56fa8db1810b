/** Markup that goes on the page unescaped. Only {@link html} and {@link markup} create it. */
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
 * Creates markup from a template. Texts and numbers are escaped, so they are safe in an element and in a quoted
 * attribute. Markup is not escaped. Lists are joined. Undefined inserts nothing.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.map((string, index) => string + render(parts[index])).join(''))
}

/** Creates markup from a text of this program. No part of the text may come from outside. */
export function markup(text: string): Html {
  return new Html(text)
}

/**
 * Escapes a text for HTML. Control characters except tab and line feed, lone surrogates, and characters that embed,
 * override or isolate a direction of text become U+FFFD, so that text from outside cannot change how the text around it
 * is shown.
 */
function escapeHtml(text: string): string {
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

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must match them.
const notText = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g

function render(part: Part): string {
  if (part === undefined) return ''
  if (part instanceof Html) return part.toString()
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part))
  return part.map(render).join('')
}

export interface Column {
  readonly name: Part
  /** Whether to align the column to the right. */
  readonly numbers?: boolean
}

export interface Cell {
  readonly text: Part
  readonly broken?: boolean
}

/** Rows that belong together. The first cell of each row is its header. */
export interface Group {
  readonly name?: Part
  readonly rows: readonly (readonly (Part | Cell)[])[]
}

/**
 * A table in a region that the keyboard can scroll if the page is narrow. `label` names the region for screen readers.
 * Each table of a page needs a label of its own. `tall` limits the height.
 */
export function table(options: {
  readonly label: string
  readonly caption: Part
  readonly columns: readonly Column[]
  readonly groups: readonly Group[]
  readonly tall?: boolean
}): Html {
  const { label, caption, columns, groups, tall = false } = options
  const classOf = (index: number): Html | undefined => (columns[index]?.numbers === true ? html` class="n"` : undefined)
  // Omits the end tags that HTML does not require, because there may be thousands of rows.
  const cell = (content: Part | Cell, index: number): Html => {
    const { text, broken = false } = isCell(content) ? content : { text: content }
    if (index === 0) return html`<th scope="row">${text}`
    return html`<td${classOf(index)}>${broken ? html`<span class="broken">${text}</span>` : text}`
  }
  const group = ({ name, rows }: Group): Html => html`<tbody>
${name === undefined ? undefined : html`<tr><th scope="rowgroup" colspan="${columns.length}">${name}\n`}${rows.map((cells) => html`<tr>${cells.map(cell)}\n`)}`
  return html`<div class="scroll${tall ? ' tall' : ''}" role="region" aria-label="${label}" tabindex="0"><table>
<caption><span class="sticky">${caption}</span></caption>
<thead><tr>${columns.map(({ name }, index) => html`<th scope="col"${classOf(index)}>${name}`)}
${groups.map(group)}</table></div>
`
}

function isCell(content: Part | Cell): content is Cell {
  return typeof content === 'object' && 'text' in content
}

/** A time or a duration in seconds, to the millisecond, without a line break: `17.734 s`; a dash for undefined. */
export function seconds(ms: number | undefined): string {
  return ms === undefined ? '–' : `${minus((ms / 1000).toFixed(3))}\u00A0s`
}

/** A count with a separator of thousands: `12,345`. */
export function count(number: number): string {
  const [whole = '', fraction] = minus(String(number)).split('.')
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
  return fraction === undefined ? grouped : `${grouped}.${fraction}`
}

/** A share from 0 to 1 as a percentage: `1.250 %`. */
export function share(part: number): string {
  return `${minus((part * 100).toFixed(3))}\u00A0%`
}

/** `1 run`, `2 runs`. */
export function counted(number: number, one: string): string {
  return `${count(number)} ${one}${number === 1 ? '' : 's'}`
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`
}

/** A share of an axis, 0 to 1, as a percentage for SVG and CSS: `12.5%`. Rounded to a hundredth of a percent. */
export function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))}%`
}

/** Writes a typographic minus sign, or none if the number rounds to zero. */
function minus(text: string): string {
  return /^-[0.]*$/.test(text) ? text.slice(1) : text.replace('-', '\u2212')
}
